"""Padding and speed of each kind of batching: `python benchmarks/data.py`.

For each kind and number of shapes: the share of padding, how full batches are,
how fast the input alone is, and how fast a model trains on real tokens.
"""

import dataclasses
import datetime
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import keras
import numpy as np
import tensorflow as tf
from absl import flags

import keras_transformer as kt
from benchmarks.harness import report
from export import command
from export.errors import InputError
from export.progress_bar import ProgressBar
from export.tokenizers.tokenizer import Tokenizer
from trainers import processes
from trainers.batches import input_data
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed
from trainers.batches.plan import BatchPlan, padding_share
from trainers.prepared.prepared_corpus import PreparedCorpus
from trainers.training.strategies import make_strategy
from trainers.training.training_model import TrainingTransformer

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "prepared_dir", None, "Prepared data, as trainers.prepare makes them."
)
flags.DEFINE_integer("tokens", 25_000, "Positions a side in a batch.")
flags.DEFINE_list(
    "shapes", ["1", "4", "8", "16", "32", "0"], "Numbers of padded lengths."
)
flags.DEFINE_list("rows", ["64", "128", "256"], "Lengths of packed rows.")
flags.DEFINE_string("preset", "tiny", "The model to train.")
flags.DEFINE_bool("train", True, "Also measure training, not the input alone.")
flags.DEFINE_bool("jit", False, "Compile loss and gradient.")
flags.DEFINE_integer("rounds", 5, "Rounds of training, interleaved.")
flags.DEFINE_integer("batches", 6, "Batches of each kind in a round.")
flags.DEFINE_integer("input_batches", 60, "Batches for the input's speed.")
flags.DEFINE_string("output", None, "A file for the table as well.")

_SEED = 1
_COLUMNS = (
    "batches",
    "shapes",
    "padding",
    "target tokens a batch",
    "planned in s",
    "input alone, tokens/s",
)
_TRAINING_COLUMNS = (
    "compiled in s",
    "target tokens/s (quartiles)",
    "beside the first",
)


@dataclasses.dataclass
class Kind:
    """One way to make batches, and what was measured of it."""

    name: str
    plan: BatchPlan
    plan_seconds: float
    input_rate: float = 0.0
    compile_seconds: float = 0.0
    train_rates: list = dataclasses.field(default_factory=list)


def main(_):
    """Runs the command."""
    if not FLAGS.prepared_dir:
        raise InputError("Give --prepared_dir, as trainers.prepare makes it.")
    corpus = PreparedCorpus(FLAGS.prepared_dir)
    pairs = corpus.pairs("train").no_longer_than(256)
    kinds = [_planned(pairs, *each) for each in _wanted()]
    for kind in kinds:
        kind.input_rate = _input_rate(pairs, kind.plan)
    if FLAGS.train:
        _train(pairs, kinds, Tokenizer(corpus.vocabulary).vocabulary_size)
    report.publish(_page(pairs, kinds), FLAGS.output)


def _wanted():
    for shapes in FLAGS.shapes:
        name = f"length, {shapes} shapes" if shapes != "0" else "length, free"
        yield name, plan_by_length, int(shapes)
    for tokens in FLAGS.rows:
        yield f"pack, rows of {tokens}", plan_packed, int(tokens)


def _planned(pairs, name, make_plan, setting):
    started = time.perf_counter()
    plan = make_plan(
        pairs.source_lengths,
        pairs.target_lengths,
        FLAGS.tokens,
        setting,
        _SEED,
    )
    return Kind(name, plan, time.perf_counter() - started)


def _input_rate(pairs, plan):
    """Real tokens of both sides a second, through tf.data, nothing else."""
    data = iter(input_data.training_data(make_strategy("one"), pairs, plan, 0))
    next(data)
    tokens, started = 0, time.perf_counter()
    for _ in range(FLAGS.input_batches):
        inputs, labels = next(data)
        tokens += np.count_nonzero(inputs["source"])
        tokens += np.count_nonzero(labels)
    return tokens / (time.perf_counter() - started)


def _train(pairs, kinds, vocabulary_size):
    strategy = make_strategy("one")
    keras.utils.set_random_seed(_SEED)
    with strategy.scope():
        model = TrainingTransformer(
            kt.TransformerConfig.preset(
                FLAGS.preset, vocabulary_size=vocabulary_size
            ),
            compile_gradient=FLAGS.jit,
        )
        model.compile_for_training()
    model.make_train_function()
    total = len(kinds) * (1 + FLAGS.rounds)
    with ProgressBar("Training", total, "visits") as bar:
        for kind in kinds:
            kind.compile_seconds = _compile_all(model, strategy, pairs, kind)
            bar.update(1)
        sources = [
            iter(input_data.training_data(strategy, pairs, kind.plan, 0))
            for kind in kinds
        ]
        for _ in range(FLAGS.rounds):
            for kind, source in zip(kinds, sources):
                kind.train_rates.append(_train_rate(model, source))
                bar.update(1)


def _compile_all(model, strategy, pairs, kind):
    """One step of every shape; returns its seconds, steps included."""
    seen, first = set(), []
    for batch in kind.plan.epoch(0):
        if batch.shape not in seen:
            seen.add(batch.shape)
            first.append(batch)

    class First:
        buckets = kind.plan.buckets

        def from_step(self, step):
            return itertools.cycle(first)

    data = iter(input_data.training_data(strategy, pairs, First(), 0))
    started = time.perf_counter()
    for _ in first:
        model.train_function(data)
    return time.perf_counter() - started


def _train_rate(model, source):
    """Real target tokens a second over some batches."""
    started = time.perf_counter()
    tokens = sum(
        float(model.train_function(source)["tokens"])
        for _ in range(FLAGS.batches)
    )
    return tokens / (time.perf_counter() - started)


def _page(pairs, kinds):
    header = _COLUMNS + (_TRAINING_COLUMNS if FLAGS.train else ())
    rows = [
        _cells(pairs, kind) + _training_cells(kind, kinds[0]) for kind in kinds
    ]
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return "\n".join(
        [
            report.markdown(header, "l" * len(header), rows),
            "",
            f"`python benchmarks/data.py {' '.join(sys.argv[1:])}`, {date}, "
            f"TensorFlow {tf.__version__}, {processes.processor_count()} "
            f"cores of {report.cpu_name()}.",
            "",
            f"{len(pairs):,} pairs, {FLAGS.tokens:,} positions a side at "
            f"most; preset {FLAGS.preset}. Input tokens are of both sides; "
            "padding counts nowhere as a token.",
        ]
    )


def _cells(pairs, kind):
    padding = padding_share(
        kind.plan, pairs.source_lengths, pairs.target_lengths
    )
    mean = pairs.target_lengths.sum() / kind.plan.batches_per_epoch
    return (
        kind.name,
        str(len(set(kind.plan.shapes))),
        f"{padding:.1%}",
        f"{mean:,.0f}",
        f"{kind.plan_seconds:.1f}",
        f"{kind.input_rate:,.0f}",
    )


def _training_cells(kind, first):
    if not kind.train_rates:
        return ()
    rate = report.spread(kind.train_rates)
    ratio = report.ratio(kind.train_rates, first.train_rates)
    return (
        f"{kind.compile_seconds:.0f}",
        f"{rate.median:,.0f} ({rate.low:,.0f} to {rate.high:,.0f})",
        f"{ratio.median:.2f}",
    )


if __name__ == "__main__":
    command.run(main)
