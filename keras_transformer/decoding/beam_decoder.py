"""Step-by-step decoding of a Transformer with caches, for a search."""

import typing

from keras import ops, tree

from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.masks import padding_mask


class DecoderState(typing.NamedTuple):
    """State between decoding steps; the first axis is the sentence.

    Attributes:
        memory: each decoder layer's cross-attention keys and values.
        memory_mask: boolean [B, 1, S].
        caches: each decoder layer's KVCache, never reordered.
        ancestry: boolean [B, K, cache length, K]; [b, k, t, j] is True if beam
            k's hypothesis contains beam j's token in cache slot t.
        output: the result of the output layer's `prepare`.
    """

    memory: typing.Any
    memory_mask: typing.Any
    caches: typing.Any
    ancestry: typing.Any
    output: typing.Any = ()


class FullOutputLayer:
    """Logits of the whole vocabulary; transposes the matrix only once."""

    def __init__(self, embedding):
        self._embedding = embedding
        self._projection = embedding.projection()

    def prepare(self, source):
        """Returns the per-sentence state of the output layer: none."""
        return ()

    def to_vocabulary_ids(self, tokens, prepared):
        """Returns the vocabulary ids of int32 [B, K] tokens: unchanged."""
        return tokens

    def logits(self, states, prepared):
        """Returns logits, float32 [B, K, V], for states, float [B, K, D]."""
        return self._embedding.project(states, self._projection)


class BeamDecoder:
    """Decodes the K beams of each sentence step by step.

    The encoder's output and the cross-attention keys and values are computed
    once per sentence; the K beams are K queries on them. Self-attention attends
    to the slots of all beams under a mask that selects each beam's own past, so
    caches are written in place and never reordered. Restricted self-attention
    needs only the slots of one window, which are overwritten.

    Args:
        model: Transformer.
        beam_size: K.
        cache: KVCache, or a subclass of it.
        output_layer: an object with the methods of FullOutputLayer, the
            default; see `output_vocabulary`.
    """

    def __init__(self, model, beam_size, cache=KVCache, output_layer=None):
        self.beam_size = beam_size
        self.cache = cache
        self._model = model
        self._output_layer = output_layer or FullOutputLayer(
            model.output_embedding
        )

    def start(self, source, capacity, memory=None):
        """Returns the DecoderState before the first step.

        `capacity` is the number of steps to allocate, a number or int32 scalar;
        a number beyond the learned positions raises ValueError. `memory` is
        `model.encode(source)`, if already computed.
        """
        self._check(capacity)
        if memory is None:
            memory = self._model.encode(source)
        beams = self.beam_size
        decoder, batch = self._model.decoder, ops.shape(source)[0]
        length = decoder.cache_length(capacity)
        return DecoderState(
            memory=decoder.project_memory(memory),
            memory_mask=padding_mask(source),
            caches=decoder.initial_caches(batch, capacity, beams, self.cache),
            ancestry=ops.zeros((batch, beams, length, beams), dtype="bool"),
            output=self._output_layer.prepare(source),
        )

    def step(
        self,
        tokens,
        parents,
        index,
        state,
        return_hidden_states=False,
        return_attention_scores=False,
    ):
        """Decodes the newest token of each beam; see `beam_search`.

        Returns logits, float32 [B, K, V], and the DecoderState; if requested
        also the decoder's output, float [B, K, D], and the cross-attention, a
        list of N float32 [B, H, K, S].
        """
        batch, beams, length, _ = ops.shape(state.ancestry)
        # Overwriting a step removes it from every ancestry, which implements
        # the window.
        cache_index = index % length
        ancestry = update_ancestry(state.ancestry, parents, cache_index)
        ids = self._output_layer.to_vocabulary_ids(tokens, state.output)
        positions = ops.reshape(ops.cast(index, "int32"), (1, 1))
        embedded, state = self._embed(ids, positions, parents, state)
        hidden_states, _, scores, caches = self._model.decoder(
            embedded,
            attention_mask=ops.reshape(
                ancestry, (batch, beams, length * self.beam_size)
            ),
            memory_mask=state.memory_mask,
            self_attention_caches=state.caches,
            cross_attention_caches=state.memory,
            cache_update_index=index,
        )
        state = state._replace(caches=tuple(caches), ancestry=ancestry)
        result = [self._output_layer.logits(hidden_states, state.output), state]
        if return_hidden_states:
            result.append(hidden_states)
        if return_attention_scores:
            result.append(scores)
        return tuple(result)

    def _embed(self, ids, positions, parents, state):
        """Returns the decoder's input, float [B, K, D], and the state."""
        return self._model.embed_target(ids, positions), state

    def alignment(self, scores, layer=None):
        """Returns the mean cross-attention; see `Transformer.alignment`."""
        return self._model.alignment(scores, layer)

    def extend_cache(self, state, capacity):
        """Returns the state with capacity for more steps; see `start`."""
        self._check(capacity)
        length = self._model.decoder.cache_length(capacity)
        added = length - ops.shape(state.ancestry)[2]
        return state._replace(
            caches=tree.map_structure(
                lambda each: _pad_steps(each, added), state.caches
            ),
            ancestry=_pad_steps(state.ancestry, added),
        )

    def _check(self, capacity):
        config = self._model.config
        table = config.max_positions if config.positions == "learned" else None
        if table and isinstance(capacity, int) and capacity > table:
            raise ValueError(
                f"max_length={capacity} does not fit the learned table of "
                f"max_positions={table}; give a smaller max_length."
            )


def update_ancestry(ancestry, parents, cache_index):
    """Gives each beam its parent's past and its own newest slot."""
    inherited = ops.take_along_axis(ancestry, parents[:, :, None, None], axis=1)
    now = ops.arange(ops.shape(ancestry)[2]) == cache_index
    own = ops.eye(ancestry.shape[-1], dtype="bool")[None, :, None, :]
    return ops.where(now[None, None, :, None], own, inherited)


def _pad_steps(values, count):
    """Appends `count` zeros on axis 2."""
    before, after = ops.shape(values)[:2], ops.shape(values)[3:]
    empty = ops.zeros((*before, count, *after), dtype=values.dtype)
    return ops.concatenate([values, empty], axis=2)
