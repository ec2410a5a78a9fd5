"""A Transformer with word positions, and its beam decoder.

A parser emits one tag for each word of its source. Letters: B batch, S source
length, T target length, K beams, D d_model.
"""

import collections
import typing

import keras
from keras import ops

from keras_transformer.config import END_ID, LARGEST_INT, TransformerConfig
from keras_transformer.decoding.beam_decoder import BeamDecoder, DecoderState
from keras_transformer.ids import arange
from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.embedding import (
    PositionLayer,
    SinusoidalPositionEncoding,
)
from keras_transformer.transformer import Transformer
from keras_transformer.types import Shape, Tensor, TensorLike


@keras.saving.register_keras_serializable("keras_transformer")
class WordPositionEncoding(PositionLayer):
    """Adds the sinusoids of a token's position and of its word's index.

    Each takes half of the width. A word's index has the same encoding on both
    sides, so that a decoder that emits one tag per word finds the next word.
    """

    def build(self, input_shape: Shape) -> None:
        """Creates the tables for [B, T, D]; there are no weights."""
        self.require_width(input_shape)
        width: typing.Any = input_shape[-1]
        self._sinusoids = SinusoidalPositionEncoding(dtype=self.dtype_policy)
        self._sinusoids.build((None, None, width // 2))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        positions: TensorLike | None = None,
        word_indices: Tensor | None = None,
    ) -> Tensor:
        """Adds vectors for positions and words to float [B, T, D]."""
        positions = self.resolve_positions(inputs, positions)
        positions = ops.broadcast_to(positions, ops.shape(word_indices))
        vectors = ops.concatenate(
            [self.encode(positions), self.encode(word_indices)], axis=-1
        )
        return inputs + ops.cast(vectors, inputs.dtype)

    def encode(self, positions: Tensor) -> Tensor:
        """Encodes int32 [...] positions or indices as float32 [..., D / 2]."""
        return self._sinusoids.encode(positions)


def source_word_indices(
    config: TransformerConfig, ids: Tensor, positions: Tensor | None = None
) -> Tensor:
    """Returns the index of each source token's word: int32 [B, S]."""
    # The end id counts as the word after the last, for a decoder that has
    # emitted a tag for every word.
    begins = (ids >= config.first_source_word_id) | (ids == END_ID)
    return ops.maximum(_count_up_to(begins, positions) - 1, 0)


def count_emitted_words(
    config: TransformerConfig, ids: Tensor, positions: Tensor | None = None
) -> Tensor:
    """Returns the number of words up to each target token: int32 [B, T]."""
    return _count_up_to(is_word_token(config, ids), positions)


def is_word_token(config: TransformerConfig, ids: Tensor) -> Tensor:
    """Returns whether target ids stand for a source word: boolean [...]."""
    return ids >= config.first_target_word_id


def _count_up_to(begins, positions):
    """Counts words up to each token; positions restart in packed rows."""
    begins = ops.cast(begins, "int32")
    counts = ops.cumsum(begins, axis=1)
    if positions is None:
        return counts
    first = arange(ops.shape(begins)[1])[None] - positions
    before = ops.take_along_axis(counts - begins, ops.maximum(first, 0), axis=1)
    # A position beyond its column gives an index beyond all words.
    return ops.where(first < 0, LARGEST_INT, counts - before)


class WordStates(typing.NamedTuple):
    """The encoder's output, from which decoders read the next word."""

    memory: Tensor  # float [B, S, D], the encoder's output
    word_indices: Tensor  # int32 [B, S], from `source_word_indices`
    mask: Tensor  # boolean, broadcastable to [B, T, S], of attention

    def next_word_states(self, num_words: Tensor) -> Tensor:
        """Returns the mean state of word `num_words`, or 0s: [B, T, D]."""
        is_next = num_words[:, :, None] == self.word_indices[:, None, :]
        is_next = ops.logical_and(is_next, self.mask)
        weights = ops.cast(is_next, self.memory.dtype)
        num_tokens = ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1)
        return ops.matmul(weights / num_tokens, self.memory)


def new_transformer(
    config: TransformerConfig, **kwargs: typing.Any
) -> Transformer:
    """Returns a ParserTransformer for word positions, else a Transformer."""
    if config.uses_word_positions:
        return ParserTransformer(config, **kwargs)
    return Transformer(config, **kwargs)


@keras.saving.register_keras_serializable("keras_transformer")
class ParserTransformer(Transformer):
    """A Transformer with `positions="words"` or `"next-word"`.

    Each position also encodes the index of its word. With "next-word" the
    encoder's mean state of the next word is added to the decoder's input.
    """

    needs_word_positions = True

    def _new_position_layer(self, name):
        return WordPositionEncoding(dtype=self.dtype_policy, name=name)

    def embed_source(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        """Embeds ids, positions and word indices as float [B, S, D]."""
        word_indices = source_word_indices(self.config, ids, positions)
        embedded = self.source_embedding(ids)
        embedded = self.source_positions(embedded, positions, word_indices)
        return self.embedding_dropout(embedded, training=training)

    def embed_target(  # type: ignore[override]
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        training: bool = False,
        *,
        num_words: Tensor,
        word_states: WordStates | tuple[()],
    ) -> Tensor:
        """Embeds ids, positions and words as float [B, T, D].

        See `count_emitted_words` and `new_word_states`.
        """
        embedded = self.target_embedding(ids)
        embedded = self.target_positions(embedded, positions, num_words)
        if word_states:
            embedded = embedded + word_states.next_word_states(num_words)
        return self.embedding_dropout(embedded, training=training)

    def _decoder_inputs(self, inputs, memory, memory_mask, training=False):
        ids, positions = inputs["target"], inputs.get("target_positions")
        word_states = self.new_word_states(
            memory,
            memory_mask,
            inputs["source"],
            inputs.get("source_positions"),
        )
        return self.embed_target(
            ids,
            positions,
            training,
            num_words=count_emitted_words(self.config, ids, positions),
            word_states=word_states,
        )

    def new_word_states(
        self,
        memory: Tensor,
        mask: Tensor,
        source: Tensor,
        positions: Tensor | None = None,
    ) -> WordStates | tuple[()]:
        """Returns WordStates; () unless `config.positions` is "next-word"."""
        if self.config.positions != "next-word":
            return ()
        word_indices = source_word_indices(self.config, source, positions)
        return WordStates(memory, word_indices, mask)

    def beam_decoder(
        self,
        beam_size: int,
        cache: type[KVCache] = KVCache,
        output_layer: typing.Any = None,
    ) -> "ParserBeamDecoder":
        """Returns the ParserBeamDecoder; see `Transformer.beam_decoder`."""
        return ParserBeamDecoder(self, beam_size, cache, output_layer)


# Adds num_words, int32 [B, K], the number of words that each beam has emitted,
# and word_states, from `new_word_states`.
ParserBeamState = collections.namedtuple(  # type: ignore[misc]
    "ParserBeamState", (*DecoderState._fields, "num_words", "word_states")
)


class ParserBeamDecoder(BeamDecoder):
    """A BeamDecoder that counts the words that each beam has emitted."""

    def start(
        self,
        source: TensorLike,
        capacity: int | Tensor,
        memory: Tensor | None = None,
    ) -> typing.Any:
        """Returns the ParserBeamState; see `BeamDecoder.start`."""
        if memory is None:
            memory = self._model.encode(source)
        state = super().start(source, capacity, memory)
        num_words = ops.zeros((ops.shape(source)[0], self.beam_size), "int32")
        word_states = self._model.new_word_states(
            memory, state.memory_mask, source
        )
        return ParserBeamState(*state, num_words, word_states)  # type: ignore[call-arg]

    def _embed(self, ids, positions, parents, state):
        is_word = is_word_token(self._model.config, ids)
        num_words = ops.take_along_axis(state.num_words, parents, axis=1)
        num_words = num_words + ops.cast(is_word, "int32")
        embedded = self._model.embed_target(
            ids,
            positions,
            num_words=num_words,
            word_states=state.word_states,
        )
        return embedded, state._replace(num_words=num_words)
