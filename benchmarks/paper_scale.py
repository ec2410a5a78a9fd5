"""The trainer's data at the paper's scale, simulated.

    python benchmarks/paper_scale.py --pairs=36e6 --batching=pack

Pairs of made-up lengths, whose ids lie in files without content, are opened
and planned as `trainers.wmt` does it, and the batch of an update far on is
made. Tokenising is not part of it: docs/measured/data.md has its speed.
"""

import os
import pathlib
import resource
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from absl import flags

from benchmarks.harness import report
from export import command
from trainers.batches import BATCHINGS, collate
from trainers.batches.batch_plan import padding_share
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed
from trainers.batches.token_pairs import TokenPairs

FLAGS = flags.FLAGS

flags.DEFINE_float("pairs", 36e6, "How many.", lower_bound=1000.0)
flags.DEFINE_float("source_mean", 30.0, "Mean length of sources, in pieces.")
flags.DEFINE_float("target_mean", 33.0, "Mean length of targets.")
flags.DEFINE_float(
    "sigma", 0.7, "Of the logarithm of lengths, which is normal."
)
flags.DEFINE_float(
    "noise", 0.15, "Of the logarithm of a target's length for its source's."
)
flags.DEFINE_enum("batching", "pack", BATCHINGS, "As for trainers.wmt.")
flags.DEFINE_integer("tokens", 25_000, "Positions a side in a batch.")
flags.DEFINE_integer("step", 300_000, "The update whose batch is made.")
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")
command.require_finite("pairs", "source_mean", "target_mean")

_LONGEST = 256
_SHARD = 1_000_000
_SEED = 1
_SETTINGS = {"pack": (plan_packed, 128), "length": (plan_by_length, 16)}


def main(_):
    """Runs the command."""
    rows = []

    def timed(what, work):
        started = time.perf_counter()
        done = work()
        seconds = time.perf_counter() - started
        rows.append([what, f"{seconds:.3g}", f"{_peak_gib():.2f}"])
        return done

    with tempfile.TemporaryDirectory() as folder:
        shards = timed(
            "making up lengths, no part of the trainer",
            lambda: list(_shards(pathlib.Path(folder))),
        )
        pairs = timed("opening", lambda: TokenPairs(shards))
        lengths = pairs.source_lengths, pairs.target_lengths
        make, setting = _SETTINGS[FLAGS.batching]
        plan = timed(
            "planning",
            lambda: make(*lengths, FLAGS.tokens, setting, _SEED),
        )
        epoch, number = divmod(FLAGS.step, plan.batches_per_epoch)
        batches = timed(
            f"the order of epoch {epoch}", lambda: plan.epoch(epoch)
        )
        packs = FLAGS.batching == "pack"
        make_batch = collate.make_packed_batch if packs else collate.make_batch
        timed(
            f"the batch of update {FLAGS.step:,}",
            lambda: make_batch(pairs, batches[number]),
        )
    padding = padding_share(plan, *lengths)
    table = report.markdown(["what", "seconds", "peak GiB so far"], "lrr", rows)
    tokens = sum(int(side.sum()) for side in lengths)
    report.publish(
        f"{table}\n\n{len(pairs):,} pairs, {tokens:,} tokens; "
        f"{plan.batches_per_epoch:,} batches an epoch, {padding:.1%} "
        "padding.\n\n"
        + report.line("benchmarks/paper_scale.py", sys.argv[1:], "tensorflow"),
        FLAGS.output,
    )


def _shards(folder):
    """Yields ids and lengths of some pairs at a time."""
    random = np.random.default_rng(_SEED)
    left = int(FLAGS.pairs)
    while left:
        count = min(left, _SHARD)
        left -= count
        lengths = _lengths(random, count)
        path = folder / f"{left}.ids"
        size = int(lengths.sum(dtype=np.int64))
        # Written nowhere, it takes no disk.
        ids = np.memmap(path, np.uint16, mode="w+", shape=(size,))
        yield ids, lengths


def _lengths(random, count):
    """Returns uint16 [pairs, 2], log-normal, from 2 to the longest."""
    common = random.normal(0.0, FLAGS.sigma, count)
    noise = random.normal(0.0, FLAGS.noise, count)
    sides = [
        # The mean of exp(normal) is exp(variance / 2).
        mean * np.exp(each - variance / 2)
        for mean, each, variance in (
            (FLAGS.source_mean, common, FLAGS.sigma**2),
            (
                FLAGS.target_mean,
                common + noise,
                FLAGS.sigma**2 + FLAGS.noise**2,
            ),
        )
    ]
    both = np.clip(np.rint(np.stack(sides, axis=1)), 2, _LONGEST)
    return both.astype(np.uint16)


def _peak_gib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    command.run(main)
