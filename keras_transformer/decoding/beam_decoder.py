"""A Transformer as the step function that beam search asks for."""

import typing

from keras import ops, tree

from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.masks import padding_mask


class BeamState(typing.NamedTuple):
    """What decoding carries from step to step, sentences in front.

    Attributes:
        memory: each decoder layer's cross-attention keys and values.
        memory_mask: boolean [B, 1, S].
        caches: each decoder layer's KVCache, in the order it was written; they
            are never re-ordered.
        ancestry: boolean [B, K, cached steps, K]; [b, k, t, j] says that beam
            k's hypothesis went through beam j at the step in place t.
        output: what the output layer keeps of each sentence, see
            `TransformerOfPieces`; else ().
    """

    memory: typing.Any
    memory_mask: typing.Any
    caches: typing.Any
    ancestry: typing.Any
    output: typing.Any = ()


class BeamDecoder:
    """Decodes the K beams of each sentence, one step after the other.

    The encoder's output and the cross-attention keys and values are made
    once per sentence; the K beams are K queries on them. Self-attention
    looks at the slots of all beams through a mask that says whose past each
    slot is, so caches are written in place and never re-ordered. Restricted
    self-attention has slots for the steps of a window and writes them anew.
    The matrix of the logits is transposed once and not at each step.

    Args:
        model: Transformer.
        beam_size: K.
        cache: KVCache, or a subclass of it.

    Attributes:
        beam_size: as given.
        cache: as given.
    """

    def __init__(self, model, beam_size, cache=KVCache):
        self.beam_size = beam_size
        self.cache = cache
        self._model = model
        self._project = self._output_layer()

    def _output_layer(self):
        """Returns a function of states that gives logits."""
        output = self._model.output_embedding
        projection = output.projection()
        return lambda states: output.project(states, projection)

    def start(self, source, capacity, memory=None):
        """Encodes int32 [B, S] ids.

        Args:
            source: int32 [B, S].
            capacity: steps it is made for: a number or int32 scalar.
            memory: `model.encode(source)`, where it has been made already.

        Returns:
            BeamState.

        Raises:
            ValueError: `capacity` is beyond the learned positions.
        """
        self._check(capacity)
        if memory is None:
            memory = self._model.encode(source)
        beams = self.beam_size
        decoder, batch = self._model.decoder, ops.shape(source)[0]
        steps = decoder.cache_length(capacity)
        return BeamState(
            memory=decoder.project_memory(memory),
            memory_mask=padding_mask(source),
            caches=decoder.initial_caches(batch, capacity, beams, self.cache),
            ancestry=ops.zeros((batch, beams, steps, beams), dtype="bool"),
        )

    def step(self, tokens, parents, index, state):
        """One step, as `beam_search` takes it."""
        return self.attending_step(tokens, parents, index, state)[:2]

    def attending_step(self, tokens, parents, index, state):
        """The same, and the cross-attention: N float32 [B, H, K, S]."""
        states, *rest = self.states_step(tokens, parents, index, state)
        return self.logits(states), *rest

    def logits(self, states):
        """Returns float32 [B, K, V] of what `states_step` returns first."""
        return self._project(states)

    def states_step(self, tokens, parents, index, state):
        """As `attending_step`, with float [B, K, D] in the logits' place."""
        batch, beams, steps, _ = ops.shape(state.ancestry)
        # A step in another's place ends the other's being seen: the window.
        place = index % steps
        ancestry = _descend(state.ancestry, parents, place, self.beam_size)
        positions = ops.reshape(ops.cast(index, "int32"), (1, 1))
        embedded, state = self._embed(tokens, positions, parents, state)
        states, _, weights, caches = self._model.decoder(
            embedded,
            attention_mask=ops.reshape(
                ancestry, (batch, beams, steps * self.beam_size)
            ),
            memory_mask=state.memory_mask,
            self_attention_caches=state.caches,
            cross_attention_caches=state.memory,
            cache_update_index=index,
        )
        state = state._replace(caches=tuple(caches), ancestry=ancestry)
        return states, state, weights

    def _embed(self, tokens, positions, parents, state):
        """Returns the decoder's input, float [B, K, D], and the state."""
        del parents
        return self._model.embed_target(tokens, positions), state

    def alignment(self, weights, layer=None):
        """As `Transformer.alignment`."""
        return self._model.alignment(weights, layer)

    def remains(self, state):
        """Returns what is kept of the state after a search: nothing."""
        del state
        return ()

    def grow(self, state, capacity):
        """Returns the state with capacity for more steps.

        Args:
            state: BeamState.
            capacity: steps it is to have: a number or int32 scalar.

        Raises:
            ValueError: as for `start`.
        """
        self._check(capacity)
        steps = self._model.decoder.cache_length(capacity)
        more = steps - ops.shape(state.ancestry)[2]
        return state._replace(
            caches=tree.map_structure(lambda x: _grown(x, more), state.caches),
            ancestry=_grown(state.ancestry, more),
        )

    def _check(self, capacity):
        config = self._model.config
        table = config.max_positions if config.positions == "learned" else None
        if table and isinstance(capacity, int) and capacity > table:
            raise ValueError(
                f"max_length={capacity} does not fit the learned table of "
                f"max_positions={table}; give a smaller max_length."
            )


def _grown(values, more):
    """Adds empty places at the end of axis 2."""
    before, after = ops.shape(values)[:2], ops.shape(values)[3:]
    empty = ops.zeros((*before, more, *after), dtype=values.dtype)
    return ops.concatenate([values, empty], axis=2)


def _descend(ancestry, parents, place, beam_size):
    """Each beam takes over its parent's past and adds its own slot."""
    inherited = ops.take_along_axis(ancestry, parents[:, :, None, None], axis=1)
    now = ops.arange(ops.shape(ancestry)[2]) == place
    own = ops.eye(beam_size, dtype="bool")[None, :, None, :]
    return ops.where(now[None, None, :, None], own, inherited)
