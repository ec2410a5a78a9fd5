"""A decoder of the beams of a search, step by step, with caches.

Letters: B sentences, S source length, K beams, V vocabulary.
"""

import typing

from keras import ops, tree

from keras_transformer.decoding.candidates import gather_beams
from keras_transformer.ids import arange
from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.embedding import SharedEmbedding
from keras_transformer.layers.masks import padding_mask
from keras_transformer.types import Tensor, TensorLike, TransformerLike


class DecoderState(typing.NamedTuple):
    """State between decoding steps; the first axis is the sentence.

    `ancestry` [b, k, t, j] is True if beam k's hypothesis contains the token of
    beam j at cache step t.
    """

    cross_attention_caches: typing.Any  # keys and values of each layer
    memory_mask: Tensor  # boolean [B, 1, S]
    self_attention_caches: typing.Any  # KVCache of each layer, never reordered
    ancestry: Tensor  # boolean [B, K, cache length, K]
    output: typing.Any = ()  # from `prepare` of the output layer
    target_language: typing.Any = ()  # int32 [B, 1], see `target_language`


class FullOutputLayer:
    """Logits of the whole vocabulary; transposes the matrix only once.

    The output layers of an `OutputVocabulary` also have a state and local ids.
    """

    def __init__(self, embedding: SharedEmbedding):
        self._embedding = embedding
        self._projection = embedding.projection()

    def prepare(self, source: TensorLike) -> tuple[()]:
        """Returns the state for each sentence: none."""
        return ()

    def to_vocabulary_ids(self, tokens: Tensor, prepared: typing.Any) -> Tensor:
        """Returns the vocabulary ids of int32 [B, K] tokens: the same."""
        return tokens

    def logits(self, states: Tensor, prepared: typing.Any) -> Tensor:
        """Returns logits, float32 [B, K, V], for states, float [B, K, D]."""
        return self._embedding.logits(states, self._projection)


class BeamDecoder:
    """Decodes the K = `beam_size` beams of each sentence step by step.

    The encoder's output and the cross-attention keys and values are computed
    once per sentence for all K queries. Self-attention attends to the slots of
    all beams under a mask that selects each beam's own past, so caches are
    written in place and never reordered. Restricted self-attention needs only
    the slots of one window, which are overwritten.
    """

    def __init__(
        self,
        model: TransformerLike,
        beam_size: int,
        cache: type[KVCache] = KVCache,
        output_layer: typing.Any = None,
    ):
        self.beam_size = beam_size
        self.cache_class = cache
        self._model = model
        self._output_layer = output_layer or FullOutputLayer(
            model.output_embedding
        )

    def start(
        self,
        source: TensorLike,
        capacity: int | Tensor,
        memory: Tensor | None = None,
    ) -> DecoderState:
        """Returns the DecoderState before the first step.

        `capacity` is the number of steps to allocate, an int or int32 scalar;
        an int beyond the learned positions raises ValueError. `memory` is
        `model.encode(source)`, if already computed.
        """
        self._validate_capacity(capacity)
        if memory is None:
            memory = self._model.encode(source)
        beams, batch = self.beam_size, ops.shape(source)[0]
        decoder = self._model.decoder
        length = decoder.cache_length(capacity)
        return DecoderState(
            cross_attention_caches=decoder.project_memory(memory),
            memory_mask=padding_mask(source),
            self_attention_caches=decoder.initial_caches(
                batch, capacity, beams, self.cache_class
            ),
            ancestry=ops.zeros((batch, beams, length, beams), dtype="bool"),
            output=self._output_layer.prepare(source),
        )

    def step(
        self,
        tokens: Tensor,
        parents: Tensor,
        index: Tensor,
        state: DecoderState,
        return_attention_scores: bool = False,
    ) -> tuple[typing.Any, ...]:
        """Decodes the newest token of each beam; see `beam_search`.

        Returns logits, float32 [B, K, V], and the DecoderState; if requested
        also the cross-attention, a list of N float32 [B, H, K, S].
        """
        batch, beams, length, _ = ops.shape(state.ancestry)
        # With a window, steps reuse slots, as in the caches (`Decoder.call`).
        ancestry = update_ancestry(state.ancestry, parents, index % length)
        ids = self._output_layer.to_vocabulary_ids(tokens, state.output)
        positions = ops.reshape(ops.cast(index, "int32"), (1, 1))
        embedded, state = self._embed(ids, positions, parents, state)
        hidden_states, _, scores, caches = self._model.decoder(
            embedded,
            attention_mask=ops.reshape(
                ancestry, (batch, beams, length * self.beam_size)
            ),
            memory_mask=state.memory_mask,
            self_attention_caches=state.self_attention_caches,
            cross_attention_caches=state.cross_attention_caches,
            cache_update_index=index,
        )
        state = state._replace(
            self_attention_caches=tuple(caches), ancestry=ancestry
        )
        logits = self._output_layer.logits(hidden_states, state.output)
        if return_attention_scores:
            return logits, state, scores
        return logits, state

    def _embed(self, ids, positions, parents, state):
        """Returns the decoder's input and the state; subclasses change it."""
        return self._model.embed_target(ids, positions), state

    def extend_cache(
        self, state: DecoderState, capacity: int | Tensor
    ) -> DecoderState:
        """Returns the state with capacity for more steps; see `start`."""
        self._validate_capacity(capacity)
        length = self._model.decoder.cache_length(capacity)
        added = length - ops.shape(state.ancestry)[2]
        caches = tree.map_structure(
            lambda cache: _pad_steps(cache, added), state.self_attention_caches
        )
        return state._replace(
            self_attention_caches=caches,
            ancestry=_pad_steps(state.ancestry, added),
        )

    def _validate_capacity(self, capacity):
        config = self._model.config
        if config.positions != "learned" or not isinstance(capacity, int):
            return
        if capacity > config.max_positions:
            raise ValueError(
                f"max_length must be at most {config.max_positions}, the "
                f"model's max_positions, not {capacity}."
            )


def update_ancestry(
    ancestry: Tensor, parents: Tensor, cache_index: Tensor
) -> Tensor:
    """Gives each beam its parent's past and its own newest slot."""
    inherited = gather_beams(ancestry, parents)
    newest = arange(ops.shape(ancestry)[2]) == cache_index
    own = ops.eye(ancestry.shape[-1], dtype="bool")[None, :, None, :]
    return ops.where(newest[None, None, :, None], own, inherited)


def _pad_steps(values, count):
    """Appends `count` zeros on axis 2."""
    before, after = ops.shape(values)[:2], ops.shape(values)[3:]
    empty = ops.zeros((*before, count, *after), dtype=values.dtype)
    return ops.concatenate([values, empty], axis=2)
