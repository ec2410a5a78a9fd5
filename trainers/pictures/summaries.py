"""Writes attention to TensorBoard during training."""

import pathlib
import re
import typing
from collections.abc import Iterable

import keras
import numpy as np
from PIL import Image, ImageOps

import keras_transformer as kt
from export.attention_views.reader import AttentionReader
from export.attention_views.word_attention import ATTENTION_KINDS
from export.translators.translator import Translator
from trainers.pictures.attention_pictures import MAX_TOKENS, draw_layer
from trainers.pictures.event_writer import EventWriter

# Minimum and maximum tokens of the longer side: enough to show a pattern, and
# few enough that two heads fit side by side.
_LENGTHS = (5, MAX_TOKENS // 2)


class AttentionSummaries(keras.callbacks.Callback):
    """Translates the same sentences during training, and draws attention.

    Writes the TensorBoard run `attention` every `frequency` updates and after
    the last one: a picture of each layer and sentence, the entropy of each head
    in nats, and the translations with their references; of the moving average
    of the weights, if there is one. Uses no random numbers, so that training is
    unchanged bit for bit. `counter` is a StepCounter.
    """

    def __init__(
        self,
        counter: typing.Any,
        model: kt.Transformer,
        tokenizer: typing.Any,
        sources: list[str],
        references: list[str],
        log_dir: pathlib.Path,
        frequency: int,
    ):
        super().__init__()
        self._counter = counter
        translator = Translator.from_model(model, tokenizer)
        self._reader = AttentionReader(translator)
        self._sources = sources
        self._references = references
        self._frequency = frequency
        self._writer = EventWriter(log_dir, "attention", counter.first)

    def on_train_batch_end(self, batch: int, logs: typing.Any = None) -> None:
        """Writes summaries if they are due."""
        is_due = self._counter.is_multiple_of(self._frequency)
        if self._sources and (is_due or self._counter.finished):
            with self.model.averaged_weights():
                maps = self._reader.read(self._sources)
            entropies: dict[str, float] = {}
            pictures: dict[str, list[Image.Image]] = {}
            for kind in ATTENTION_KINDS:
                entropies |= _compute_entropies(maps, kind)
                pictures |= _draw_pictures(maps, kind)
            self._writer.write(
                self._counter.step,
                scalars=entropies,
                texts={"translations": self._translation_tables(maps)},
                images=pictures,
            )

    def _translation_tables(self, maps):
        tables = []
        for sentence, reference in zip(maps, self._references):
            rows = [
                ("source", sentence.text),
                ("its tokens", " ".join(sentence.source_tokens)),
                ("translation", sentence.translation),
                ("its tokens", " ".join(sentence.target_tokens)),
                ("reference", reference),
            ]
            tables.append(two_column_table(rows))
        return tables


def choose_attention_sentences(pairs: typing.Any, count: int) -> np.ndarray:
    """Returns the indices of up to `count` TokenPairs to draw, int [N].

    Their longer side has 5 to 12 tokens, or else the nearest lengths; blank
    sources are excluded.
    """
    lengths = np.maximum(pairs.source_lengths, pairs.target_lengths)
    distances = np.abs(lengths - lengths.clip(*_LENGTHS))
    # A blank source consists of the end id.
    indices = np.flatnonzero(pairs.source_lengths >= 2)
    in_range = indices[distances[indices] == 0]
    if len(in_range) < count:
        nearest = indices[np.argsort(distances[indices], kind="stable")]
        return np.sort(nearest[:count])
    return in_range[:: len(in_range) // count][:count]


def two_column_table(rows: Iterable[tuple[str, str]]) -> str:
    """Returns a Markdown table of pairs; the first is the header."""
    lines = [f"| {_escape(name)} | {_escape(text)} |" for name, text in rows]
    return "\n".join([lines[0], "|---|---|", *lines[1:]])


def _escape(text):
    # Entities prevent punctuation from being read as Markdown or HTML.
    text = " ".join(text.split())
    return re.sub(r"[!-/:-@\[-`{-~]", lambda match: f"&#{ord(match[0])};", text)


def _compute_entropies(maps, kind):
    """Returns the mean entropy of each head in nats, by tag."""
    sums, num_queries = 0.0, 0
    for sentence in maps:
        weights = getattr(sentence, kind).astype(np.float64)
        logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
        sums = sums - (weights * logarithms).sum(axis=(-2, -1))
        num_queries += weights.shape[-2]
    return {
        f"attention_entropy/{kind}/layer_{layer + 1}/head_{head + 1}": mean
        for (layer, head), mean in np.ndenumerate(sums / num_queries)
    }


def _draw_pictures(maps, kind):
    """Returns a picture of each sentence for each layer, by tag."""
    pictures = {}
    for layer in range(1, len(getattr(maps[0], kind)) + 1):
        drawn = [draw_layer(sentence, kind, layer) for sentence in maps]
        # TensorBoard needs equal sizes, so white is added at the bottom.
        height = max(picture.height for picture in drawn)
        pictures[f"attention_{kind}/layer_{layer}"] = [
            ImageOps.expand(each, (0, 0, 0, height - each.height), "white")
            for each in drawn
        ]
    return pictures
