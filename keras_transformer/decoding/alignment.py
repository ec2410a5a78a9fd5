"""Alignments: what the decoder attends to in the source (section 3.2.3)."""

import typing

from keras import ops

from keras_transformer.config import BEGIN_ID


def alignment_of(model, weights, layer=None):
    """Makes an alignment of cross-attention weights.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        weights: N float32 [B, H, T, S], one of each decoder layer; of an
            ensemble such a list of each model.
        layer: as for `Transformer.alignment`.

    Returns:
        float32 [B, T, S], mean over the heads.

    Raises:
        ValueError: there is no such layer.
    """
    return model.alignment(weights, layer)


class AlignmentTrace(typing.NamedTuple):
    """What was given to the K beams of each sentence, and what they saw.

    Attributes:
        tokens: int32 [B, T, K], the token each beam was given at each step.
        parents: int32 [B, T, K], the beam of the step before it continued.
        attention: float32 [B, T, K * S], its alignment at that step.
    """

    tokens: typing.Any
    parents: typing.Any
    attention: typing.Any


class TracingDecoder:
    """The same methods as BeamDecoder, with a Record in the state.

    Args:
        decoder: what `beam_decoder` of a Transformer or an Ensemble returns.
        max_length: T, steps there may be: a number or int32 scalar.
        layer: of `Transformer.alignment`.
    """

    def __init__(self, decoder, max_length, layer=None):
        self._decoder = decoder
        self._max_length = max_length
        self._layer = layer

    def start(self, source, capacity, memory=None):
        """Returns the decoder's state with an empty Record."""
        batch, length = ops.shape(source)
        steps, beams = self._max_length, self._decoder.beam_size
        nothing = ops.zeros((batch, steps, beams), dtype="int32")
        attention = ops.zeros((batch, steps, beams * length), dtype="float32")
        record = AlignmentTrace(nothing, nothing, attention)
        return self._decoder.start(source, capacity, memory), record

    def step(self, tokens, parents, index, state):
        """One step, as `beam_search` takes it."""
        inner, record = state
        logits, inner, weights = self._decoder.attending_step(
            tokens, parents, index, inner
        )
        alignment = self._decoder.alignment(weights, self._layer)
        now = ops.arange(ops.shape(record.tokens)[1]) == index
        now = now[None, :, None]
        return logits, (
            inner,
            AlignmentTrace(
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
        return self._decoder.cache.scatter(attention, where, alignment)

    @staticmethod
    def remains(state):
        """Returns what is kept of a state after a search: its Record."""
        return state[1]

    def grow(self, state, capacity):
        """Returns the state with capacity for more steps."""
        inner, record = state
        return self._decoder.grow(inner, capacity), record


def gather_alignments(record, tokens):
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
    _, recorded, width = ops.shape(record.attention)
    beams = record.tokens.shape[2]
    rows = ops.reshape(
        record.attention, (batch * recorded * beams, width // beams)
    )
    first = ops.arange(batch)[:, None] * recorded + ops.arange(steps)
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
