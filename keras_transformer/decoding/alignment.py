"""Alignments from the decoder's attention to the source (section 3.2.3).

Letters: B sentences, S source length, T steps, K beams, M hypotheses.
"""

import typing
from collections.abc import Callable

from keras import ops, tree

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.beam_search import shift_right
from keras_transformer.decoding.ensemble import EnsembleDecoder
from keras_transformer.ids import arange, as_ids, bound_ids, nan_unless
from keras_transformer.types import Tensor, TensorLike, TransformerLike


class AlignmentTrace(typing.NamedTuple):
    """Tokens and attention of every beam at every step of a search."""

    tokens: Tensor  # int32 [B, T, K], the input token of each beam
    parents: Tensor  # int32 [B, T, K], the beam that each continues
    attention: Tensor  # float32 [B, T, K * S], the alignment of each beam


# The decoder's state and the trace.
_State: typing.TypeAlias = tuple[typing.Any, AlignmentTrace]


class TracingDecoder:
    """A BeamDecoder that also records an AlignmentTrace.

    `max_length` is the maximum number of steps, an int or int32 scalar.
    `alignment` is `Transformer.alignment` of the decoder's model.
    """

    def __init__(
        self,
        decoder: BeamDecoder | EnsembleDecoder,
        max_length: int | Tensor,
        alignment: Callable[[typing.Any], Tensor],
    ):
        self._decoder = decoder
        self._max_length = max_length
        self._alignment = alignment

    def start(
        self,
        source: TensorLike,
        capacity: int | Tensor,
        memory: typing.Any = None,
    ) -> _State:
        """Returns the state: the decoder's and an empty trace."""
        batch, length = ops.shape(source)
        steps, beams = self._max_length, self._decoder.beam_size
        zeros = ops.zeros((batch, steps, beams), dtype="int32")
        attention = ops.zeros((batch, steps, beams * length), dtype="float32")
        trace = AlignmentTrace(zeros, zeros, attention)
        return self._decoder.start(source, capacity, memory), trace

    def step(
        self, tokens: Tensor, parents: Tensor, index: Tensor, state: _State
    ) -> tuple[Tensor, _State]:
        """Runs one step; see `beam_search`."""
        decoder_state, trace = state
        logits, decoder_state, scores = self._decoder.step(
            tokens, parents, index, decoder_state, return_attention_scores=True
        )
        newest = arange(ops.shape(trace.tokens)[1]) == index
        newest = newest[None, :, None]
        batch, _, width = ops.shape(trace.attention)
        alignment = ops.cast(self._alignment(scores), trace.attention.dtype)
        indices = ops.stack(
            [arange(batch), ops.broadcast_to(index, (batch,))], axis=1
        )
        # As large as a cache, so its class writes this too, maybe in place.
        attention = self._decoder.cache_class.scatter_update(
            trace.attention,
            indices,
            ops.reshape(alignment, (batch, width)),
            overwrite=False,
        )
        trace = AlignmentTrace(
            tokens=ops.where(newest, tokens[:, None], trace.tokens),
            parents=ops.where(newest, parents[:, None], trace.parents),
            attention=attention,
        )
        return logits, (decoder_state, trace)

    def extend_cache(self, state: _State, capacity: int | Tensor) -> _State:
        """Returns the state with capacity for more steps."""
        decoder_state, trace = state
        return self._decoder.extend_cache(decoder_state, capacity), trace


def gather_alignments(trace: AlignmentTrace, tokens: Tensor) -> Tensor:
    """Returns the alignments of hypotheses from the trace of their search.

    `tokens` are M hypotheses per sentence, int32 [B, M, T], with at most as
    many steps as the trace. Row t of the result, float32 [B, M, T, S], is from
    the step that generates token t and sums to 1; padding rows are arbitrary.
    """
    batch, _, steps = ops.shape(tokens)
    _, traced_steps, width = ops.shape(trace.attention)
    beams = trace.tokens.shape[2]
    # Sentence b, step t and beam k have row (b traced_steps + t) beams + k.
    rows = ops.reshape(
        trace.attention, (batch * traced_steps * beams, width // beams)
    )
    step_indices = arange(batch)[:, None] * traced_steps + arange(steps)
    row_indices = step_indices[:, None] * beams + _find_beams(trace, tokens)
    return ops.take(rows, row_indices, axis=0)  # [B, M, T, S]


def _find_beams(trace, tokens):
    """Returns the beam of each hypothesis at each step: int32 [B, M, T]."""
    batch, hypotheses, steps = ops.shape(tokens)
    inputs = shift_right(tokens)

    # Follows `beam`, [B, M], from step 0 on: the next beam is the one that has
    # it as its parent, and the hypothesis's next token.
    def advance(index, beam, beams):
        step_tokens = ops.take(trace.tokens, index, axis=1)  # [B, K]
        step_parents = ops.take(trace.parents, index, axis=1)  # [B, K]
        step_inputs = ops.take(inputs, index, axis=2)  # [B, M]
        matches = step_tokens[:, None] == step_inputs[..., None]  # [B, M, K]
        matches = matches & (step_parents[:, None] == beam[..., None])
        beam = ops.cast(ops.argmax(matches, axis=-1), "int32")
        newest = arange(steps) == index
        return index + 1, beam, ops.where(newest, beam[..., None], beams)

    _, _, beams = ops.while_loop(
        lambda index, beam, beams: index < steps,
        advance,
        (
            ops.convert_to_tensor(0, "int32"),
            ops.zeros((batch, hypotheses), dtype="int32"),
            ops.zeros_like(tokens),
        ),
    )
    return beams


def force_align(
    model: TransformerLike,
    source: TensorLike,
    target: TensorLike,
    layer: int | None = None,
) -> Tensor:
    """Aligns given translations with their sources: float32 [B, T, S].

    Takes a Transformer, or an Ensemble for the mean of its models; int32 [B, S]
    source and [B, T] target ids, each row ending with the end id, then padding;
    and a decoder layer, from 1 (see `Transformer.alignment`). Row t is from the
    step that generates `target[:, t]`, sums to 1 and is 0 on padding.
    """
    scores = attention_scores(model, source, target)["cross"]
    return model.alignment(scores, layer)


def attention_scores(
    model: TransformerLike, source: TensorLike, target: TensorLike
) -> dict[str, typing.Any]:
    """Returns the attention of every head for given translations.

    See `Transformer.attention`, and `force_align` for the ids. Row t of
    `decoder` and `cross` is from the step that generates `target[:, t]`, and 0
    on padding; the keys of `decoder` are its inputs, the begin id and
    `target[:, :-1]`.
    """
    target = as_ids(target)
    scores = model.attention({"source": source, "target": shift_right(target)})
    # The last is no input, but its row must not look right either.
    size = model.config.vocabulary_size
    _, is_inside = bound_ids(target, size, "target id")
    is_inside = is_inside[:, None, :, None]
    # After its end a target is padding, but its input is not yet.
    is_token = ops.not_equal(target, PAD_ID)[:, None, :, None]
    for name in ("decoder", "cross"):
        scores[name] = tree.map_structure(
            lambda weights: (
                ops.cast(is_token, weights.dtype)
                * nan_unless(is_inside, 1, weights.dtype)
                * weights
            ),
            scores[name],
        )
    return scores
