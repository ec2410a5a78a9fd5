"""Compares training steps of this project and others in one run.

    python benchmarks/train_step.py --size=base --rounds=5

All systems make the same updates (label smoothing 0.1, dropout 0.1, the
paper's Adam and schedule) on the same random ids, with sentence lengths of a
corpus. Each runs in its own process, and they alternate by batch and round.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_transformer as kt
from benchmarks.harness import report
from benchmarks.harness.report import quartiles, ratio
from benchmarks.harness.turns import measure_systems
from benchmarks.harness.worker import select_systems
from benchmarks.training_job import (
    DEFAULT_TABLE,
    SYSTEMS,
    StepJob,
    make_batches,
    read_lengths,
)
from export.common import command, processes
from trainers.cost.flops import flops

FLAGS = flags.FLAGS

# Models whose parameter counts differ more are not compared.
_LARGEST_DIFFERENCE = 0.02
_HEADER = (
    "system",
    "runs on",
    "parameters",
    "loss at step 0",
    "seconds a step",
    "CPU seconds",
    "target tokens/s (quartiles)",
    "{ours} / it (quartiles)",
    "GFLOP/s",
    "of the products' rate",
    "of the GPU's peak",
    "peak GiB",
)

flags.DEFINE_enum(
    "size", "base", ["tiny", "base", "big"], "The preset to time."
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "Of activations and products; PyTorch's autocast for mixed_bfloat16.",
)
flags.DEFINE_list(
    "systems",
    [],
    "Names, separated by commas; ratios are to the first model. Default: all "
    "whose packages are installed. KERAS_BACKEND=tensorflow: "
    f"{', '.join(SYSTEMS['tensorflow'])}. KERAS_BACKEND=jax: "
    f"{', '.join(SYSTEMS['jax'])}.",
)
flags.DEFINE_integer(
    "rounds", 5, "How often each system is timed on each batch.", lower_bound=1
)
flags.DEFINE_integer(
    "tokens", 4096, "Positions of a batch on each side.", lower_bound=8
)
flags.DEFINE_integer(
    "shapes", 4, "Number of batches, each of another shape.", lower_bound=1
)
flags.DEFINE_string(
    "lengths",
    str(DEFAULT_TABLE),
    "CSV file of source,target,pairs: how many pairs have which lengths.",
)
flags.DEFINE_integer(
    "warm_up", 2, "Updates on each batch before any is timed.", lower_bound=1
)
flags.DEFINE_float(
    "visit_seconds", 0.5, "Of repeated updates, averaged.", lower_bound=0.0
)
flags.DEFINE_bool(
    "alone", False, "One system in memory at a time, started in each round."
)
flags.DEFINE_enum(
    "device", "auto", ["auto", "cpu", "gpu"], "auto is the GPU if there is one."
)


def main(_):
    backend = keras.backend.backend()
    systems = select_systems(SYSTEMS, backend, FLAGS.systems)
    config = kt.TransformerConfig.preset(
        FLAGS.size, dropout=0.1, label_smoothing=0.1
    )
    job = StepJob(
        config=config,
        precision=FLAGS.precision,
        device=report.device(FLAGS.device),
        batches=make_batches(
            read_lengths(FLAGS.lengths),
            config.vocabulary_size,
            FLAGS.tokens,
            FLAGS.shapes,
        ),
        cores=processes.processor_count(),
    )
    results = measure_systems(
        systems,
        lambda name, answers: job,
        range(len(job.batches)),
        FLAGS.rounds,
        warm_up=FLAGS.warm_up,
        arguments=(FLAGS.visit_seconds,),
        alone=FLAGS.alone,
    )
    line = report.provenance("benchmarks/train_step.py", sys.argv[1:], backend)
    peak = report.gpu_peak(job.precision) if job.device == "gpu" else None
    print(_table(results, systems, job, peak))
    print(f"\n{line}\n\n{_explanation(job, peak)}")


def _explanation(job, peak):
    shapes = ", ".join(
        f"{batch.source.shape[0]} x {batch.source.shape[1]} and "
        f"{batch.labels.shape[1]}"
        for batch in job.batches
    )
    tokens = sum(batch.target_tokens for batch in job.batches)
    positions = sum(batch.labels.size for batch in job.batches)
    of_peak = ""
    if peak is not None:
        of_peak = f"The GPU's datasheet peak is {peak / 1e12:.1f} TFLOP/s.\n"
    return f"""{job.precision} on {job.device}; batches: {shapes}
(rows x padded lengths of both sides); {tokens / positions:.1%} of target
positions are tokens. `ours-packed` has the same pairs in rows of up to 128.
GFLOP/s of models count 6 for each weight of a matrix and each position it is
used at, padding too (ours without XLA makes no logits of it). `products` makes
all products of a step, those of queries, keys and values too, and nothing else.
{of_peak}ln V = {np.log(job.config.vocabulary_size):.3f}."""


def _table(results, systems, job, peak):
    """Returns a Markdown table; ratios are to the first model."""
    rows = [_Row(each, systems[each.name], job) for each in results]
    ours = next((row for row in rows if row.result.parameters), None)
    products = next(
        (row for row in rows if row.result.name == "products"), None
    )
    name = ours.result.name if ours else "ours"
    header = [cell.format(ours=name) for cell in _HEADER]
    cells = [row.cells(ours, products, peak) for row in rows]
    return report.markdown_table(header, "lll" + "r" * 9, cells)


class _Row:
    """Averages of a Measurement over the batches."""

    def __init__(self, result, system, job):
        timings = result.timings.values()
        self.result = result
        self.seconds = np.mean(
            [[each.mean for each in row] for row in timings], axis=0
        )
        self.cpu_seconds = np.mean(
            [
                [each.cpu_seconds / len(each.each) for each in row]
                for row in timings
            ],
            axis=0,
        )
        tokens = np.mean([batch.target_tokens for batch in job.batches])
        work = [flops(system.work(job, batch)) for batch in job.batches]
        self.token_rates = tokens / self.seconds
        self.flop_rates = np.mean(work) / self.seconds

    def cells(self, ours, products, peak):
        rate = quartiles(self.flop_rates).median
        count = self.result.parameters
        share = "-"
        if products not in (None, self):
            share = f"{ratio(self.flop_rates, products.flop_rates):.3f}"
        first_loss = self.result.warm_up[0]
        return [
            self.result.name,
            self.result.note,
            f"{count:,}" if count else "-",
            f"{first_loss:.3f}" if count else "-",
            f"{quartiles(self.seconds).median:.4g}",
            f"{quartiles(self.cpu_seconds).median:.4g}",
            f"{quartiles(self.token_rates):,.0f}" if count else "-",
            self._ratio(ours),
            f"{rate / 1e9:,.0f}",
            share,
            f"{rate / peak:.3f}" if peak else "-",
            f"{self.result.peak_bytes / 2**30:.2f}",
        ]

    def _ratio(self, ours):
        if not self.result.parameters or self is ours:
            return "-"
        count = ours.result.parameters
        difference = abs(self.result.parameters - count) / count
        if difference > _LARGEST_DIFFERENCE:
            return f"none: size differs by {difference:.1%}"
        return f"{ratio(ours.token_rates, self.token_rates):.3f}"


if __name__ == "__main__":
    command.run(main, any_backend=True)
