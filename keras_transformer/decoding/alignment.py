"""Alignments: what the decoder attends to in the source (section 3.2.3)."""

import typing

from keras import ops

from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.layers.cache import Cache
from keras_transformer.special_ids import BEGIN_ID


def alignment_of(model, weights, layer=None):
    """Makes an alignment of cross-attention weights.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        weights: N float32 [B, H, T, S], one of each decoder layer; of an
            ensemble such a list of each model.
        layer: number of the layer that is taken, from 1; None for the last
            but one, whose attention is nearest to what people call an
            alignment (Garg et al. 2019, section 5.1).

    Returns:
        float32 [B, T, S], mean over the heads.

    Raises:
        ValueError: there is no such layer.
    """
    if isinstance(model, Ensemble):
        each = [
            alignment_of(one, its_weights, layer)
            for one, its_weights in zip(model.models, weights)
        ]
        return ops.mean(ops.stack(each), axis=0)
    layers = model.config.num_layers
    if layer is None:
        layer = max(layers - 1, 1)
    if not 1 <= layer <= layers:
        raise ValueError(f"layer must be from 1 to {layers}, not {layer}.")
    return ops.mean(weights[layer - 1], axis=1)


class Record(typing.NamedTuple):
    """What was given to the K beams of each sentence, and what they saw.

    Attributes:
        tokens: int32 [B, T, K], the token each beam was given at each step.
        parents: int32 [B, T, K], the beam of the step before it continued.
        attention: float32 [B, T, K * S], its alignment at that step.
    """

    tokens: typing.Any
    parents: typing.Any
    attention: typing.Any


class RecordingDecoder:
    """The same methods as BeamDecoder, with a Record in the state.

    Args:
        model: Transformer or Ensemble.
        decoder: its BeamDecoder or EnsembleDecoder.
        beam_size: K.
        max_length: T, steps there may be: a number or int32 scalar.
        layer: of `alignment_of`.
        cache: Cache, or a subclass of it, whose `scatter` is used.
    """

    def __init__(
        self, model, decoder, beam_size, max_length, layer=None, cache=Cache
    ):
        self._model = model
        self._decoder = decoder
        self._beam_size = beam_size
        self._max_length = max_length
        self._layer = layer
        self._scatter = cache.scatter

    def start(self, source, room, memory=None):
        """Returns the decoder's state with an empty Record."""
        batch, length = ops.shape(source)
        steps, beams = self._max_length, self._beam_size
        nothing = ops.zeros((batch, steps, beams), dtype="int32")
        attention = ops.zeros((batch, steps, beams * length), dtype="float32")
        record = Record(nothing, nothing, attention)
        return self._decoder.start(source, room, memory), record

    def step(self, tokens, parents, index, state):
        """One step, as `beam_search` takes it."""
        inner, record = state
        logits, inner, weights = self._decoder.attending_step(
            tokens, parents, index, inner
        )
        alignment = alignment_of(self._model, weights, self._layer)
        now = ops.arange(ops.shape(record.tokens)[1]) == index
        now = now[None, :, None]
        return logits, (
            inner,
            Record(
                ops.where(now, tokens[:, None], record.tokens),
                ops.where(now, parents[:, None], record.parents),
                self._noted(record.attention, alignment, index),
            ),
        )

    def _noted(self, attention, alignment, index):
        batch, _, width = ops.shape(attention)
        rows = ops.arange(batch)
        where = ops.stack([rows, ops.broadcast_to(index, (batch,))], axis=1)
        alignment = ops.reshape(alignment, (batch, width))
        return self._scatter(attention, where, alignment)

    @staticmethod
    def record(state):
        """Returns the Record in a state."""
        return state[1]

    def grow(self, state, room):
        """Returns the state with room for more steps; a Record has it all."""
        inner, record = state
        return self._decoder.grow(inner, room), record


def alignments_of(record, tokens):
    """Finds the alignments of hypotheses in the record of their search.

    Args:
        record: Record.
        tokens: int32 [B, M, T], M hypotheses that the search has found of
            each sentence, with as many steps as the record or fewer.

    Returns:
        float32 [B, M, T, S]: row t is of the step that gives token t, and
        sums to 1; rows after a hypothesis' end mean nothing.
    """
    batch, _, steps = ops.shape(tokens)
    _, room, width = ops.shape(record.attention)
    beams = record.tokens.shape[2]
    rows = ops.reshape(record.attention, (batch * room * beams, width // beams))
    first = ops.arange(batch)[:, None] * room + ops.arange(steps)
    visited = first[:, None] * beams + _visited_beams(record, tokens)
    return ops.take(rows, visited, axis=0)


def _visited_beams(record, tokens):
    """Returns int32 [B, M, T], the beam each hypothesis was at each step.

    No two beams of a step are the same token after the same beam.
    """
    batch, hypotheses, steps = ops.shape(tokens)
    begin = ops.full_like(tokens[:, :, :1], BEGIN_ID)
    given = ops.concatenate([begin, tokens[:, :, :-1]], axis=2)

    def unfinished(index, beam, visited):
        del beam, visited
        return index < steps

    def advance(index, beam, visited):
        is_it = ops.logical_and(
            ops.take(record.tokens, index, axis=1)[:, None]
            == ops.take(given, index, axis=2)[..., None],
            ops.take(record.parents, index, axis=1)[:, None] == beam[..., None],
        )
        beam = ops.cast(ops.argmax(is_it, axis=-1), "int32")
        now = ops.arange(steps) == index
        return index + 1, beam, ops.where(now, beam[..., None], visited)

    _, _, visited = ops.while_loop(
        unfinished,
        advance,
        (
            ops.convert_to_tensor(0, "int32"),
            ops.zeros((batch, hypotheses), dtype="int32"),
            ops.zeros_like(tokens),
        ),
    )
    return visited
