"""Translates text with a trained model."""

import dataclasses

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.model_directory import ModelDirectory
from keras_transformer.special_ids import END_ID

# Sources are cut to this many ids, the end id counted.
MAX_SOURCE_TOKENS = 512
# Padded lengths grow by this much, so that few shapes are compiled.
_LENGTH_STEP = 8


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: of the translation.
        score: log-probability / length penalty.
    """

    text: str
    score: float


class Translator:
    """Beam search over lists of text, compiled once for each padded length.

    A sentence's translation does not depend on what it is translated with.

    Args:
        model: Transformer.
        tokenizer: Tokenizer of its vocabulary.
        batch_tokens: source positions in a batch, padding counted.
    """

    def __init__(self, model, tokenizer, batch_tokens=2048):
        self.model = model
        self.tokenizer = tokenizer
        self.batch_tokens = batch_tokens
        self._search = tf.function(self._search_ids, jit_compile=True)
        self._compiled = {}

    @classmethod
    def from_directory(cls, path):
        """Returns the translator of a model directory.

        Raises:
            InputError: it is not a whole model directory.
        """
        directory = ModelDirectory(path)
        return cls(directory.load_model(), directory.load_tokenizer())

    def translate(self, texts, on_progress=None):
        """Translates sentences.

        Empty text (or only spaces) gives empty text with score 0.

        Args:
            texts: list of str, a sentence each.
            on_progress: function of the number of sentences just done.

        Returns:
            A list of Translation in the same order.
        """
        sources = [_cut(ids) for ids in self.tokenizer.encode(list(texts))]
        results = [Translation("", 0.0)] * len(sources)
        for batch in self._batches(sources):
            tokens, scores = self._translate_ids([sources[i] for i in batch])
            decoded = self.tokenizer.decode(tokens)
            for i, text, score in zip(batch, decoded, scores.tolist()):
                results[i] = Translation(text, score)
            if on_progress is not None:
                on_progress(len(batch))
        return results

    def _batches(self, sources):
        """Groups the sentences that are not empty by padded length."""
        by_length = {}
        for number, ids in enumerate(sources):
            if len(ids) > 1:
                by_length.setdefault(_padded_length(len(ids)), []).append(
                    number
                )
        for length in sorted(by_length):
            rows = self._rows(length)
            numbers = by_length[length]
            for start in range(0, len(numbers), rows):
                yield numbers[start : start + rows]

    def _rows(self, length):
        return max(self.batch_tokens // length, 1)

    def _translate_ids(self, sources):
        length = _padded_length(max(len(ids) for ids in sources))
        # A short last batch is filled up, so that its shape is one that is
        # compiled already.
        rows = self._rows(length)
        matrix = np.zeros((rows, length), np.int32)
        for row, ids in zip(matrix, sources):
            row[: len(ids)] = ids
        search = self._compiled_for(matrix.shape)
        tokens, scores = search(tf.constant(matrix))
        count = len(sources)
        return tokens.numpy()[:count], scores.numpy()[:count]

    def _compiled_for(self, shape):
        if shape not in self._compiled:
            self._compiled[shape] = self._search.get_concrete_function(
                tf.TensorSpec(shape, tf.int32)
            )
        return self._compiled[shape]

    def _search_ids(self, source):
        room = source.shape[1] + self.model.config.max_output_extra
        result = kt.translate_ids(self.model, source, room)
        return result.tokens[:, 0], result.scores[:, 0]


def _cut(ids):
    if len(ids) <= MAX_SOURCE_TOKENS:
        return ids
    return np.append(ids[: MAX_SOURCE_TOKENS - 1], END_ID).astype(np.int32)


def _padded_length(length):
    return -(-length // _LENGTH_STEP) * _LENGTH_STEP
