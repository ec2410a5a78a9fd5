"""Measures padding and input speed for each kind of batching.

    python benchmarks/data.py --prepared_dir=data/corpus

Prints, for each kind and number of shapes: the share of padding, tokens per
batch, planning time, and the speed of the input pipeline alone.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
from absl import flags

from benchmarks.harness import report
from benchmarks.harness.turns import parse_numbers
from export.common import command
from trainers.batches import PlannedBatches, input_pipeline
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.training.strategies import make_strategy

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "prepared_dir", None, "What trainers.prepare wrote.", required=True
)
flags.DEFINE_integer("tokens", 25_000, "Positions a side in a batch.")
flags.DEFINE_list(
    "shapes",
    ["1", "4", "8", "16", "32", "0"],
    "Numbers of padded lengths; 0 for as many as are worth it.",
)
flags.DEFINE_list("rows", ["64", "128", "256"], "Lengths of packed rows.")
flags.DEFINE_integer("input_batches", 60, "Batches to time.", lower_bound=1)

_SEED = 1
_HEADER = (
    *("batches", "shapes", "padding", "target tokens a batch"),
    *("planned in s", "input alone, tokens/s"),
)


def main(_):
    pairs = PreparedCorpus(FLAGS.prepared_dir).pairs("train")
    pairs = pairs.filter_by_length(256)
    lengths = pairs.source_lengths, pairs.target_lengths
    kinds = [
        (f"length, {shapes or 'free'} shapes", plan_by_length, shapes)
        for shapes in parse_numbers("shapes", FLAGS.shapes, least=0)
    ] + [
        (f"pack, rows of {tokens}", plan_packed, tokens)
        for tokens in parse_numbers("rows", FLAGS.rows)
    ]
    rows = []
    for name, make_plan, setting in kinds:
        started = time.perf_counter()
        plan = make_plan(*lengths, FLAGS.tokens, setting, _SEED)
        seconds = time.perf_counter() - started
        positions = sum(bucket.num_positions for bucket in plan.buckets)
        tokens = sum(map(np.sum, lengths))
        rows.append(
            [
                name,
                str(len({bucket.shape for bucket in plan.buckets})),
                f"{1 - tokens / positions:.1%}",
                f"{pairs.target_lengths.sum() / plan.batches_per_epoch:,.0f}",
                f"{seconds:.1f}",
                f"{_input_rate(pairs, plan):,.0f}",
            ]
        )
    print(report.markdown_table(_HEADER, "l" * len(_HEADER), rows))
    line = report.provenance("benchmarks/data.py", sys.argv[1:], "tensorflow")
    print(
        f"\n{line}\n\n{len(pairs):,} pairs, at most {FLAGS.tokens:,} positions "
        "a side. Input tokens are of both sides, without padding."
    )


def _input_rate(pairs, plan):
    """Returns tokens per second of both sides, from tf.data alone."""
    strategy = make_strategy("one")
    batches = PlannedBatches(pairs, plan)
    data = iter(input_pipeline.training_data(strategy, batches, 0))
    next(data)
    tokens, started = 0, time.perf_counter()
    for _ in range(FLAGS.input_batches):
        inputs, labels = next(data)
        tokens += np.count_nonzero(inputs["source"])
        tokens += np.count_nonzero(labels)
    return tokens / (time.perf_counter() - started)


if __name__ == "__main__":
    command.run(main)
