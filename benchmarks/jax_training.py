"""Trains on JAX, without TensorFlow, and translates the test split.

    KERAS_BACKEND=jax python benchmarks/jax_training.py \
        --prepared_dir=data/multi30k --output_dir=runs/jax --train_steps=2000

For figures of GPUs where there is no TensorFlow, and to compare a training
there with one elsewhere: the batches, the initial weights and, with JAX,
dropout depend on nothing but the seed. `trainers.wmt` is what users train
with; here nothing is resumed, averaged or chosen on dev.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("KERAS_BACKEND", "jax")

import dataclasses
import itertools
import time

import keras
import numpy as np
import sacrebleu

from benchmarks.decoding.job import DecodeJob, Pieces
from benchmarks.harness import report
from benchmarks.harness.turns import say
from benchmarks.peers.ours_jax import Search, Updates
from benchmarks.training_step.work import ROW_TOKENS
from export import command
from export.files.atomic import written_whole
from keras_transformer.config import PAD_ID
from trainers import processes
from trainers.batches.collate import make_packed_batch
from trainers.batches.packed import plan_packed
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.settings import make_config

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "prepared_dir", None, "What trainers.prepare wrote.", required=True
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Where config.json, vocabulary.model, model.weights.h5, losses.csv and "
    "test.txt, the translations, go.",
    required=True,
)
flags.DEFINE_string("preset", "base", "A named TransformerConfig.")
flags.DEFINE_multi_string(
    "set", [], "name=value: a field of the configuration."
)
flags.DEFINE_enum(
    "precision",
    "mixed_bfloat16",
    ["float32", "mixed_bfloat16"],
    "Of activations and products.",
)
flags.DEFINE_integer("train_steps", 2000, "Updates at most.", lower_bound=1)
flags.DEFINE_float(
    "train_seconds",
    0.0,
    "Stops so long after the first update; 0 for no limit.",
    lower_bound=0.0,
)
flags.DEFINE_integer("seed", 1, "Of weights, dropout and the data's order.")
flags.DEFINE_bool(
    "translate", True, "Whether to translate the test split, if there is one."
)

# GPUs' libraries want lengths that are multiples of it.
_MULTIPLE = 8
_REPORT_STEPS = 100
_TEST_BATCH = 125


def main(_):
    """Runs the command."""
    corpus = PreparedCorpus(FLAGS.prepared_dir)
    pieces = corpus.manifest.source.vocabulary_size
    config = make_config(
        FLAGS.preset, [*FLAGS.set, f"vocabulary_size={pieces}"]
    )
    folder = pathlib.Path(FLAGS.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    say(report.line("benchmarks/jax_training.py", sys.argv[1:], "jax"))
    keras.utils.set_random_seed(FLAGS.seed)
    updates = Updates(config, FLAGS.precision)
    losses = _train(updates, corpus.pairs("train"))
    _write_text(folder / "losses.csv", "\n".join(["step,loss", *losses, ""]))
    updates.keep()
    _write_text(folder / "config.json", config.to_json())
    with written_whole(folder / "vocabulary.model") as path:
        path.write_bytes(corpus.vocabulary)
    with written_whole(folder / "model.weights.h5") as path:
        updates.model.save_weights(path)
    test = corpus.test_set()
    if FLAGS.translate and test:
        _translate(folder, config, test)


def _train(updates, pairs):
    """Makes the updates; returns a line "step,loss" of each."""
    config = updates.model.config
    lengths = pairs.source_lengths, pairs.target_lengths
    plan = plan_packed(*lengths, config.batch_tokens, ROW_TOKENS, FLAGS.seed)
    batches = (
        _widened(*make_packed_batch(pairs, batch))
        for batch in itertools.islice(plan.from_step(0), FLAGS.train_steps)
    )
    # The first update is mostly compiling.
    losses = [updates.make(*next(batches))]
    updates.wait()
    tokens, began = 0, time.perf_counter()
    for inputs, labels in batches:
        losses.append(updates.make(inputs, labels))
        tokens += int((labels != PAD_ID).sum())
        if len(losses) % _REPORT_STEPS:
            continue
        updates.wait()
        seconds = time.perf_counter() - began
        say(
            f"step {len(losses)}: loss {float(losses[-1]):.3f}, "
            f"{tokens / seconds:,.0f} target tokens/s"
        )
        if 0 < FLAGS.train_seconds < seconds:
            break
    return [f"{step},{float(loss)}" for step, loss in enumerate(losses, 1)]


def _widened(inputs, labels):
    """Pads rows on the right, so that their lengths are multiples."""

    def wide(array):
        return np.pad(array, ((0, 0), (0, -array.shape[1] % _MULTIPLE)))

    return {name: wide(array) for name, array in inputs.items()}, wide(labels)


def _translate(folder, config, test):
    """Translates the test split, writes the lines and says their BLEU."""
    pieces = Pieces(folder)
    job = DecodeJob(
        model=str(folder),
        prepared=str(folder),
        config=dataclasses.asdict(config),
        precision="float32" if FLAGS.precision == "float32" else "bfloat16",
        device=report.device("auto"),
        cores=processes.processor_count(),
        sentences=list(test.sources),
        source_lengths=pieces.lengths(list(test.sources)),
    )
    search = Search(job)
    found = [
        pair
        for batch in job.batches(_TEST_BATCH)
        for pair in search.translate(batch)
    ]
    lines = [f"{score:.6f}\t{text}\n" for text, score in found]
    _write_text(folder / "test.txt", "".join(lines))
    bleu = sacrebleu.corpus_bleu(
        [text for text, _ in found], test.reference_streams()
    )
    say(f"test: {bleu}, {len(found)} sentences")


def _write_text(path, text):
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    command.run(main)
