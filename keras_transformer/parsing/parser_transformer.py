"""A Transformer with word positions, and its beam decoder.

A parser emits one tag for each word of its source. Letters: B batch, S source
length, T target length, K beams, D d_model.
"""

import collections
import typing

import keras
from keras import ops

from keras_transformer.config import END_ID
from keras_transformer.decoding.translate import BeamDecoder, DecoderState
from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.embedding import (
    PositionLayer,
    SinusoidalPositionEncoding,
)
from keras_transformer.transformer import Transformer


@keras.saving.register_keras_serializable("keras_transformer")
class WordPositionEncoding(PositionLayer):
    """Adds the sinusoids of a token's position and of its word's number.

    Each takes half of the width. Word numbers have the same encoding on both
    sides, by which a decoder that emits one tag per word finds the next word.
    """

    def build(self, input_shape):
        """Creates the tables for [B, T, D]; there are no weights."""
        self.validate_width(input_shape)
        self._half = SinusoidalPositionEncoding(dtype=self.dtype_policy)
        self._half.build((None, None, input_shape[-1] // 2))
        self.built = True

    def call(self, inputs, positions=None, words=None):
        """Adds vectors for positions and word numbers to float [B, T, D]."""
        positions = self.resolve_positions(inputs, positions)
        positions = ops.broadcast_to(positions, ops.shape(words))
        vectors = ops.concatenate(
            [self.encode(positions), self.encode(words)], axis=-1
        )
        return inputs + ops.cast(vectors, inputs.dtype)

    def encode(self, positions):
        """Encodes int32 [...] numbers as float32 [..., D / 2]."""
        return self._half.encode(positions)


def source_word_indices(config, ids, positions=None):
    """Returns the number of each source token's word, from 0: int32 [B, S]."""
    # The end id counts as the word after the last, for a decoder that has
    # emitted all of them.
    begins = (ids >= config.first_source_word_id) | (ids == END_ID)
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
    """The encoder's output with the word number of each position."""

    memory: typing.Any  # float [B, S, D], the encoder's output
    words: typing.Any  # int32 [B, S], from `source_word_indices`
    mask: typing.Any  # boolean, broadcastable to [B, T, S], of attention

    def next_word_states(self, num_words):
        """Returns the mean state of the next word, else 0: [B, T, D]."""
        is_next = num_words[:, :, None] == self.words[:, None, :]
        is_next = ops.logical_and(is_next, self.mask)
        shares = ops.cast(is_next, self.memory.dtype)
        tokens = ops.maximum(ops.sum(shares, axis=-1, keepdims=True), 1)
        return ops.matmul(shares / tokens, self.memory)


def new_transformer(config, **kwargs):
    """Returns a ParserTransformer for word positions, else a Transformer."""
    if config.uses_word_positions:
        return ParserTransformer(config, **kwargs)
    return Transformer(config, **kwargs)


@keras.saving.register_keras_serializable("keras_transformer")
class ParserTransformer(Transformer):
    """A Transformer with `positions="words"` or `"next-word"`.

    Each position also encodes the number of its word. With "next-word" the
    encoder's states of the next word to be tagged are added to the decoder's
    input.
    """

    needs_word_positions = True

    def _new_position_layer(self, name):
        return WordPositionEncoding(dtype=self.dtype_policy, name=name)

    def embed_source(self, ids, positions=None, training=False):
        """Embeds ids, positions and word numbers as float [B, S, D]."""
        words = source_word_indices(self.config, ids, positions)
        embedded = self.source_embedding(ids)
        embedded = self.source_positions(embedded, positions, words)
        return self.embedding_dropout(embedded, training=training)

    def embed_target(
        self, ids, positions=None, training=False, *, num_words, word_states
    ):
        """Embeds ids, positions and word numbers as float [B, T, D].

        The last two are from `count_emitted_words` and `new_word_states`.
        """
        embedded = self.target_embedding(ids)
        embedded = self.target_positions(embedded, positions, num_words)
        if word_states:
            embedded = embedded + word_states.next_word_states(num_words)
        return self.embedding_dropout(embedded, training=training)

    def _decoder_inputs(self, inputs, memory, memory_mask, training=False):
        ids, positions = inputs["target"], inputs.get("target_positions")
        return self.embed_target(
            ids,
            positions,
            training,
            num_words=count_emitted_words(self.config, ids, positions),
            word_states=self.new_word_states(
                *(memory, inputs["source"], memory_mask),
                inputs.get("source_positions"),
            ),
        )

    def new_word_states(self, memory, source, mask, positions=None):
        """Returns WordStates; () unless `positions` is "next-word"."""
        if self.config.positions != "next-word":
            return ()
        words = source_word_indices(self.config, source, positions)
        return WordStates(memory, words, mask)

    def beam_decoder(self, beam_size, cache=KVCache, output_layer=None):
        """Returns the ParserBeamDecoder; see `Transformer.beam_decoder`."""
        return ParserBeamDecoder(self, beam_size, cache, output_layer)


# Adds num_words, int32 [B, K], the words that each beam has emitted, and the
# word_states of `new_word_states`.
ParserBeamState = collections.namedtuple(
    "ParserBeamState", (*DecoderState._fields, "num_words", "word_states")
)


class ParserBeamDecoder(BeamDecoder):
    """A BeamDecoder that counts the words that each beam has emitted."""

    def start(self, source, capacity, memory=None):
        """Returns the ParserBeamState; see `BeamDecoder.start`."""
        if memory is None:
            memory = self._model.encode(source)
        state = super().start(source, capacity, memory)
        shape = ops.shape(source)[0], self.beam_size
        states = self._model.new_word_states(memory, source, state.memory_mask)
        return ParserBeamState(*state, ops.zeros(shape, "int32"), states)

    def _embed(self, tokens, positions, parents, state):
        is_word = ops.cast(is_word_token(self._model.config, tokens), "int32")
        num_words = ops.take_along_axis(state.num_words, parents, axis=1)
        num_words = num_words + is_word
        embedded = self._model.embed_target(
            tokens,
            positions,
            num_words=num_words,
            word_states=state.word_states,
        )
        return embedded, state._replace(num_words=num_words)
