"""Word numbers of tokens, and position encodings that include them.

A parser emits one tag for each word of its source. Letters: B batch, S source
length, T target length, D d_model.
"""

import typing

import keras
from keras import ops

from keras_transformer.config import END_ID
from keras_transformer.layers.embedding import (
    PositionLayer,
    SinusoidalPositionEncoding,
)


@keras.saving.register_keras_serializable("keras_transformer")
class WordPositionEncoding(PositionLayer):
    """Adds the sinusoids of a token's position and of its word's number.

    Each takes half of the width. Word numbers have the same encoding on both
    sides, by which a decoder that emits one tag per word finds the next word.
    """

    def build(self, input_shape):
        """Creates the tables for [B, T, D]; there are no weights."""
        self.require_width(input_shape)
        self._half = SinusoidalPositionEncoding(dtype=self.dtype_policy)
        self._half.build((None, None, input_shape[-1] // 2))
        self.built = True

    def call(self, inputs, positions=None, words=None):
        """Adds vectors for positions and word numbers to float [B, T, D]."""
        positions = self.check_positions(inputs, positions)
        positions = ops.broadcast_to(positions, ops.shape(words))
        vectors = ops.concatenate(
            [self.encode(positions), self.encode(words)], axis=-1
        )
        return inputs + ops.cast(vectors, inputs.dtype)

    def encode(self, positions):
        """Encodes int32 [...] numbers as float32 [..., D / 2]."""
        return self._half.encode(positions)


def number_source_words(config, ids, positions=None):
    """Returns the number of each source token's word, from 0: int32 [B, S]."""
    # The end id counts as the word after the last, for a decoder that has
    # emitted all of them.
    begins = ops.logical_or(ids >= config.first_source_word_id, ids == END_ID)
    return ops.maximum(_count_up_to(begins, positions) - 1, 0)


def count_emitted_words(config, ids, positions=None):
    """Returns the number of target words up to each token: int32 [B, T]."""
    return _count_up_to(is_word_token(config, ids), positions)


def is_word_token(config, ids):
    """Returns a boolean mask of the target ids that stand for a source word."""
    return ids >= config.first_target_word_id


def _count_up_to(begins, positions):
    """Counts words up to each token; positions restart in packed rows."""
    begins = ops.cast(begins, "int32")
    counts = ops.cumsum(begins, axis=1)
    if positions is None:
        return counts
    first = ops.arange(ops.shape(begins)[1])[None] - positions
    return counts - ops.take_along_axis(counts - begins, first, axis=1)


class WordStates(typing.NamedTuple):
    """The encoder's output with the word number of each position.

    Attributes:
        memory: float [B, S, D], the encoder's output.
        words: int32 [B, S], from `number_source_words`.
        mask: boolean, broadcastable to [B, T, S], the source tokens that a
            target token may attend to.
    """

    memory: typing.Any
    words: typing.Any
    mask: typing.Any

    def of_next_word(self, num_words):
        """Returns the mean state of the next word, else 0: [B, T, D]."""
        is_next = ops.equal(num_words[:, :, None], self.words[:, None, :])
        is_next = ops.logical_and(is_next, self.mask)
        shares = ops.cast(is_next, self.memory.dtype)
        tokens = ops.maximum(ops.sum(shares, axis=-1, keepdims=True), 1)
        return ops.matmul(shares / tokens, self.memory)
