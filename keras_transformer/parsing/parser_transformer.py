"""A Transformer with word positions, and its beam decoder."""

import collections

import keras
from keras import ops

from keras_transformer.decoding.beam_decoder import BeamDecoder, DecoderState
from keras_transformer.layers.attention import KVCache
from keras_transformer.parsing.word_positions import (
    WordPositionEncoding,
    WordStates,
    count_emitted_words,
    is_word_token,
    number_source_words,
)
from keras_transformer.transformer import Transformer


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
        words = number_source_words(self.config, ids, positions)
        embedded = self.source_embedding(ids)
        embedded = self.source_positions(embedded, positions, words)
        return self.embedding_dropout(embedded, training=training)

    def embed_target(
        self, ids, positions=None, training=False, *, num_words, word_states
    ):
        """Embeds ids, positions and word numbers as float [B, T, D].

        See `Transformer.embed_target`. `num_words`, int32 [B, T], counts the
        words emitted up to each token; `word_states` come from
        `new_word_states`.
        """
        embedded = self.target_embedding(ids)
        embedded = self.target_positions(embedded, positions, num_words)
        if word_states:
            embedded = embedded + word_states.of_next_word(num_words)
        return self.embedding_dropout(embedded, training=training)

    def _embed_target(self, inputs, memory, memory_mask, training=False):
        ids, positions = inputs["target"], inputs.get("target_positions")
        return self.embed_target(
            ids,
            positions,
            training,
            num_words=count_emitted_words(self.config, ids, positions),
            word_states=self.new_word_states(
                memory,
                inputs["source"],
                memory_mask,
                inputs.get("source_positions"),
            ),
        )

    def new_word_states(self, memory, source, mask, positions=None):
        """Returns WordStates; () unless `positions` is "next-word"."""
        if self.config.positions != "next-word":
            return ()
        words = number_source_words(self.config, source, positions)
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
