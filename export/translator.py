"""Translates text with a trained model."""

import numpy as np
import tensorflow as tf

import keras_transformer as kt
from export.limits import source_limit
from export.model_directory import ModelDirectory
from export.translation import Translation
from keras_transformer.special_ids import END_ID

# Sources are cut to this many ids, the end id counted.
MAX_SOURCE_TOKENS = 512


class Translator:
    """Beam search over lists of text, similar lengths together.

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
        # One graph for every shape: XLA would compile each padded length,
        # some ten seconds apiece.
        self._search = tf.function(
            self._search_ids,
            input_signature=[tf.TensorSpec([None, None], tf.int32)],
            autograph=False,
        )

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
        limit = source_limit(self.model.config, MAX_SOURCE_TOKENS)
        encoded = self.tokenizer.encode(list(texts))
        sources = [_cut(ids, limit) for ids in encoded]
        results = [Translation("", 0.0)] * len(sources)
        for batch in _batches(sources, self.batch_tokens):
            tokens, scores = self._search(_padded([sources[i] for i in batch]))
            decoded = self.tokenizer.decode(tokens)
            for i, text, score in zip(batch, decoded, scores.numpy().tolist()):
                results[i] = Translation(text, score)
            if on_progress is not None:
                on_progress(len(batch))
        return results

    def _search_ids(self, source):
        room = kt.output_room(source, self.model.config)
        result = kt.translate_ids_in_segments(self.model, source, room)
        return result.tokens[:, 0], result.scores[:, 0]


def _batches(sources, batch_tokens):
    """Yields the numbers of the sentences that are not empty, by length."""
    numbers = [i for i, ids in enumerate(sources) if len(ids) > 1]
    numbers.sort(key=lambda i: len(sources[i]), reverse=True)
    start = 0
    while start < len(numbers):
        rows = max(batch_tokens // len(sources[numbers[start]]), 1)
        yield numbers[start : start + rows]
        start += rows


def _padded(sources):
    matrix = np.zeros((len(sources), max(map(len, sources))), np.int32)
    for row, ids in zip(matrix, sources):
        row[: len(ids)] = ids
    return tf.constant(matrix)


def _cut(ids, limit):
    if len(ids) <= limit:
        return ids
    return np.append(ids[: limit - 1], END_ID).astype(np.int32)
