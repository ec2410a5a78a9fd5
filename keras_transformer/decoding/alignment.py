"""Alignments from the decoder's attention to the source (section 3.2.3)."""

import typing

from keras import ops

from keras_transformer.config import BEGIN_ID


class AlignmentTrace(typing.NamedTuple):
    """Tokens and attention of every beam at every step of a search."""

    tokens: typing.Any  # int32 [B, T, K], the input token of each beam
    parents: typing.Any  # int32 [B, T, K], the beam that each continues
    attention: typing.Any  # float32 [B, T, K * S], the alignment of each beam


class TracingDecoder:
    """A BeamDecoder that also records an AlignmentTrace.

    `max_length` is the maximum number of steps, an int or int32 scalar;
    `alignment` is the method of the decoder's model.
    """

    def __init__(self, decoder, max_length, alignment):
        self._decoder = decoder
        self._max_length = max_length
        self._alignment = alignment

    def start(self, source, capacity, memory=None):
        """Returns the decoder's initial state and an empty trace."""
        batch, length = ops.shape(source)
        steps, beams = self._max_length, self._decoder.beam_size
        zeros = ops.zeros((batch, steps, beams), dtype="int32")
        attention = ops.zeros((batch, steps, beams * length), dtype="float32")
        trace = AlignmentTrace(zeros, zeros, attention)
        return self._decoder.start(source, capacity, memory), trace

    def step(self, tokens, parents, index, state):
        """Runs one step; see `beam_search`."""
        state, trace = state
        logits, state, scores = self._decoder.step(
            tokens, parents, index, state, return_attention_scores=True
        )
        newest = ops.arange(ops.shape(trace.tokens)[1]) == index
        newest = newest[None, :, None]
        batch, _, width = ops.shape(trace.attention)
        indices = ops.stack(
            [ops.arange(batch), ops.broadcast_to(index, (batch,))], axis=1
        )
        attention = self._decoder.cache.scatter_update(
            trace.attention,
            indices,
            ops.reshape(self._alignment(scores), (batch, width)),
            overwrite=False,
        )
        trace = AlignmentTrace(
            tokens=ops.where(newest, tokens[:, None], trace.tokens),
            parents=ops.where(newest, parents[:, None], trace.parents),
            attention=attention,
        )
        return logits, (state, trace)

    def extend_cache(self, state, capacity):
        """Returns the state with capacity for more steps."""
        state, trace = state
        return self._decoder.extend_cache(state, capacity), trace


def gather_alignments(trace, tokens):
    """Returns the alignments of hypotheses from the trace of their search.

    `tokens` are M hypotheses per sentence, int32 [B, M, T], with at most as
    many steps as the trace. Row t of the result, float32 [B, M, T, S], is from
    the step that generates token t and sums to 1; it is arbitrary after an end.
    """
    batch, _, steps = ops.shape(tokens)
    _, traced_steps, width = ops.shape(trace.attention)
    beams = trace.tokens.shape[2]
    rows = ops.reshape(
        trace.attention, (batch * traced_steps * beams, width // beams)
    )
    step_indices = ops.arange(batch)[:, None] * traced_steps + ops.arange(steps)
    row_indices = step_indices[:, None] * beams + _find_beams(trace, tokens)
    return ops.take(rows, row_indices, axis=0)


def _find_beams(trace, tokens):
    """Returns the beam of each hypothesis at each step: int32 [B, M, T]."""
    batch, hypotheses, steps = ops.shape(tokens)
    inputs = shift_right(tokens)

    # At each step a token and its parent identify a beam.
    def advance(index, beam, beams):
        tokens = ops.take(trace.tokens, index, axis=1)[:, None]
        parents = ops.take(trace.parents, index, axis=1)[:, None]
        matches = tokens == ops.take(inputs, index, axis=2)[..., None]
        matches = matches & (parents == beam[..., None])
        beam = ops.cast(ops.argmax(matches, axis=-1), "int32")
        newest = ops.arange(steps) == index
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


def force_align(model, source, target, layer=None):
    """Aligns given translations with their sources: float32 [B, T, S].

    Takes a Transformer, or an Ensemble for the mean of its models; int32 [B, S]
    source and [B, T] target ids, each row ending with the end id, then padding;
    and a decoder layer, from 1 (see `Transformer.alignment`). Row t is from the
    step that generates `target[:, t]`, sums to 1 and is 0 on padding.
    """
    scores = attention_scores(model, source, target)["cross"]
    return model.alignment(scores, layer)


def attention_scores(model, source, target):
    """Returns the attention of every head for given translations.

    See `Transformer.attention`, and `force_align` for the ids. Row t of
    `decoder` and `cross` is from the step that generates `target[:, t]`; the
    keys of `decoder` are its inputs, the begin id and `target[:, :-1]`.
    """
    return model.attention({"source": source, "target": shift_right(target)})


def shift_right(tokens):
    """Returns the decoder's input for int32 [..., T] output tokens."""
    begin = ops.full_like(tokens[..., :1], BEGIN_ID)
    return ops.concatenate([begin, tokens[..., :-1]], axis=-1)
