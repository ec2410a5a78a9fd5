"""Writes TensorBoard event files, with attention during training."""

import contextlib
import re

import keras
import numpy as np
import tensorflow as tf
from PIL import ImageOps

from export.attention_views.reader import AttentionReader
from export.attention_views.word_attention import KINDS
from export.common.errors import InputError
from export.translators.translator import Translator
from trainers.pictures.attention_pictures import MAX_TOKENS, draw_layer

# Tokens of the longer side: enough to show a pattern, and few enough that two
# heads fit side by side.
_LENGTHS = (5, MAX_TOKENS // 2)


class EventWriter:
    """Writes tf.summary events to a run; InputError if it cannot."""

    def __init__(self, log_dir, run):
        self._log_dir = log_dir
        with self._explain_errors():
            self._writer = tf.summary.create_file_writer(str(log_dir / run))

    @contextlib.contextmanager
    def at_step(self, step):
        """Opens a block whose events belong to a step, and flushes at its end.

        End it with a scalar: only then TensorFlow reports a full disk.
        """
        with self._explain_errors(), self._writer.as_default(step):
            yield

    @contextlib.contextmanager
    def _explain_errors(self):
        try:
            yield
        except tf.errors.OpError as error:
            # TensorFlow surrounds the reason with names of operations.
            reason = error.message.splitlines()[0].rpartition("}} ")[2]
            reason = reason.partition(" [Op:")[0]
            raise InputError(
                f"Cannot write {self._log_dir}: {reason}. Make room, then run "
                "the same command again."
            ) from error


class AttentionSummaries(keras.callbacks.Callback):
    """Translates the same sentences every N updates, and draws attention.

    Uses no random numbers, so that training is unchanged bit for bit. Writes
    the TensorBoard run `attention`: a picture of each layer and sentence, the
    entropy of each head in nats, and the translations beside the references.
    `counter` is a StepCounter; the last update is drawn as well.
    """

    def __init__(
        self, counter, model, tokenizer, sources, references, log_dir, every
    ):
        super().__init__()
        self._counter = counter
        self._reader = AttentionReader(Translator(model, tokenizer))
        self._sources = sources
        self._references = references
        self._every = every
        self._writer = EventWriter(log_dir, "attention")

    def on_train_batch_end(self, batch, logs=None):
        """Writes summaries every N updates and at the end."""
        due = self._counter.is_multiple_of(self._every)
        if self._sources and (due or self._counter.finished):
            maps = self._reader.read(self._sources)
            with self._writer.at_step(self._counter.step):
                tf.summary.text("translations", self._tables(maps))
                for kind in KINDS:
                    _write_pictures(maps, kind)
                    _write_entropies(maps, kind)

    def _tables(self, maps):
        return [
            two_column_table(
                [
                    ("source", each.text),
                    ("its tokens", " ".join(each.source_tokens)),
                    ("translation", each.translation),
                    ("its tokens", " ".join(each.target_tokens)),
                    ("reference", reference),
                ]
            )
            for each, reference in zip(maps, self._references)
        ]


def choose_attention_sentences(pairs, count):
    """Returns indices of up to `count` TokenPairs to draw, int [N].

    They have 5 to 12 tokens on the longer side, or the nearest lengths, and no
    blank source.
    """
    longer = np.maximum(pairs.source_lengths, pairs.target_lengths)
    distance = np.abs(longer - longer.clip(*_LENGTHS))
    # A blank source consists of the end id.
    numbers = np.flatnonzero(pairs.source_lengths >= 2)
    good = numbers[distance[numbers] == 0]
    if len(good) < count:
        nearest = numbers[np.argsort(distance[numbers], kind="stable")]
        return np.sort(nearest[:count])
    return good[:: len(good) // count][:count]


def two_column_table(rows):
    """Returns a Markdown table of pairs of str: a heading and any text."""
    lines = [f"| {_escape(name)} | {_escape(text)} |" for name, text in rows]
    return "\n".join([lines[0], "|---|---|", *lines[1:]])


def _escape(text):
    # Entities prevent punctuation from being read as Markdown or HTML.
    text = " ".join(text.split())
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text)


def _write_entropies(maps, kind):
    sums, rows = 0.0, 0
    for each in maps:
        weights = getattr(each, kind).astype(np.float64)
        logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
        sums = sums - (weights * logarithms).sum(axis=(-2, -1))
        rows += weights.shape[-2]
    for (layer, head), mean in np.ndenumerate(sums / rows):
        name = f"{kind}/layer_{layer + 1}/head_{head + 1}"
        tf.summary.scalar(f"attention_entropy/{name}", mean)


def _write_pictures(maps, kind):
    for layer in range(1, len(getattr(maps[0], kind)) + 1):
        samples = [draw_layer(each, kind, layer) for each in maps]
        # TensorBoard needs samples of equal size: pads the bottom with white.
        height = max(sample.height for sample in samples)
        samples = [
            ImageOps.expand(each, (0, 0, 0, height - each.height), "white")
            for each in samples
        ]
        tag = f"attention_{kind}/layer_{layer}"
        tf.summary.image(tag, np.stack(samples), max_outputs=len(samples))
