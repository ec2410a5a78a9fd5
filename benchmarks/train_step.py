"""Times one training step of this project beside others, in one run.

    python benchmarks/train_step.py --size=base --rounds=5

All systems make the same updates (label smoothing 0.1, dropout 0.1, the
paper's Adam and schedule) on the same pairs of random ids, whose lengths are
those of training. Each waits in a process of its own, and they take turns,
batch by batch and round by round.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

from benchmarks.harness import report
from benchmarks.harness.systems import select_systems
from benchmarks.harness.turns import NoiseMonitor
from benchmarks.training_step.job import (
    DEFAULT_TABLE,
    StepJob,
    make_config,
    make_mixed_batches,
    make_sorted_batches,
    read_lengths,
)
from benchmarks.training_step.measure import StepRun
from benchmarks.training_step.report import page
from benchmarks.training_step.systems import SYSTEMS
from export import command
from trainers import processes

FLAGS = flags.FLAGS

_BATCHES = {"sorted": make_sorted_batches, "mixed": make_mixed_batches}

flags.DEFINE_enum(
    "size", "base", ["tiny", "base", "big"], "The preset that is timed."
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
    "Names with commas between; the first model is the one that ratios are "
    "of. Default: all whose packages are installed. On KERAS_BACKEND="
    "tensorflow: ours, ours-packed, ours-jit, keras-hub, products, square; on "
    "jax the same without ours-jit; on both transformers and torch, compiled "
    "too (transformers-compiled, torch-compiled), and torch-products.",
)
flags.DEFINE_integer(
    "rounds", 5, "How often each system visits each shape.", lower_bound=1
)
flags.DEFINE_integer(
    "tokens", 4096, "Positions of a batch on each side.", lower_bound=8
)
flags.DEFINE_enum(
    "batches",
    "sorted",
    list(_BATCHES),
    "Of which pairs: sorted, of about one length; mixed, in the order of a "
    "shuffled corpus. Padded to the longest but for ours-packed.",
)
flags.DEFINE_integer(
    "shapes", 4, "Batches, each of another padded length.", lower_bound=1
)
flags.DEFINE_string(
    "lengths",
    str(DEFAULT_TABLE),
    "CSV file of source,target,pairs: how many pairs have which lengths.",
)
flags.DEFINE_integer(
    "warm_up", 2, "Updates on each shape before any is timed.", lower_bound=1
)
flags.DEFINE_float(
    "visit_seconds",
    0.5,
    "Updates are repeated for so long at each visit, and averaged.",
    lower_bound=0.0,
)
flags.DEFINE_integer(
    "tries",
    3,
    "How often a visit is made, at most, while other programs take more than "
    "8 % of the cores; the shortest one counts.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "alone",
    False,
    "One system in memory at a time, started anew in each round: for models "
    "that do not fit all at once.",
)
flags.DEFINE_enum(
    "device", "auto", ["auto", "cpu", "gpu"], "auto is the GPU if there is one."
)
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")


def main(_):
    """Runs the command."""
    backend = keras.backend.backend()
    config = make_config(FLAGS.size)
    run = StepRun(
        chosen=select_systems(SYSTEMS, backend, FLAGS.systems),
        job=StepJob(
            config=config,
            precision=FLAGS.precision,
            device=report.device(FLAGS.device),
            batches=_BATCHES[FLAGS.batches](
                *read_lengths(FLAGS.lengths),
                config.vocabulary_size,
                FLAGS.tokens,
                FLAGS.shapes,
            ),
            cores=processes.processor_count(),
        ),
        rounds=FLAGS.rounds,
        warm_up=FLAGS.warm_up,
        at_least=FLAGS.visit_seconds,
        watch=NoiseMonitor(FLAGS.tries),
    )
    results = run.alone() if FLAGS.alone else run.together()
    line = report.provenance("benchmarks/train_step.py", sys.argv[1:], backend)
    report.publish(page(results, run.job, run.watch, line), FLAGS.output)


if __name__ == "__main__":
    command.run(main)
