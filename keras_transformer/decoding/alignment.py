"""Alignments from the decoder's attention to the source (section 3.2.3)."""

import typing

from keras import ops

from keras_transformer.config import BEGIN_ID


class AlignmentTrace(typing.NamedTuple):
    """Tokens and attention of every beam at every step of a search."""

    tokens: typing.Any  # int32 [B, T, K], each beam's input token
    parents: typing.Any  # int32 [B, T, K], the beam that it continues
    attention: typing.Any  # float32 [B, T, K * S], its alignment


class TracingDecoder:
    """A BeamDecoder with the state (decoder state, AlignmentTrace).

    `alignment` is that of the decoder's model, `max_length` the maximum number
    of steps, a number or int32 scalar.
    """

    def __init__(self, decoder, max_length, alignment):
        self._decoder = decoder
        self._max_length = max_length
        self._alignment = alignment

    def start(self, source, capacity, memory=None):
        """Returns the initial state with an empty trace."""
        batch, length = ops.shape(source)
        steps, beams = self._max_length, self._decoder.beam_size
        empty = ops.zeros((batch, steps, beams), dtype="int32")
        attention = ops.zeros((batch, steps, beams * length), dtype="float32")
        trace = AlignmentTrace(empty, empty, attention)
        return self._decoder.start(source, capacity, memory), trace

    def step(self, tokens, parents, index, state):
        """Runs one step; see `beam_search`."""
        state, trace = state
        logits, state, scores = self._decoder.step(
            tokens, parents, index, state, return_attention_scores=True
        )
        alignment = self._alignment(scores)
        newest = ops.arange(ops.shape(trace.tokens)[1]) == index
        newest = newest[None, :, None]
        batch, _, width = ops.shape(trace.attention)
        indices = ops.stack(
            [ops.arange(batch), ops.broadcast_to(index, (batch,))], axis=1
        )
        trace = AlignmentTrace(
            ops.where(newest, tokens[:, None], trace.tokens),
            ops.where(newest, parents[:, None], trace.parents),
            self._decoder.cache.scatter_update(
                trace.attention,
                indices,
                ops.reshape(alignment, (batch, width)),
                overwrite=False,
            ),
        )
        return logits, (state, trace)

    def extend_cache(self, state, capacity):
        """Returns the state with capacity for more steps."""
        state, trace = state
        return self._decoder.extend_cache(state, capacity), trace


def gather_alignments(trace, tokens):
    """Returns the alignments of hypotheses from the trace of a search.

    `tokens` are M hypotheses of that search per sentence, int32 [B, M, T], with
    at most as many steps as the trace. In the result, float32 [B, M, T, S], row
    t is from the step that generates token t, and sums to 1; rows after the end
    of a hypothesis are arbitrary.
    """
    batch, _, steps = ops.shape(tokens)
    _, traced, width = ops.shape(trace.attention)
    beams = trace.tokens.shape[2]
    rows = ops.reshape(
        trace.attention, (batch * traced * beams, width // beams)
    )
    first = ops.arange(batch)[:, None] * traced + ops.arange(steps)
    visited = first[:, None] * beams + _find_beams(trace, tokens)
    return ops.take(rows, visited, axis=0)


def _find_beams(trace, tokens):
    """Returns int32 [B, M, T], the beam of each hypothesis at each step."""
    batch, hypotheses, steps = ops.shape(tokens)
    inputs = shift_right(tokens)

    # At each step (token, parent) identifies a beam.
    def advance(index, beam, visited):
        tokens, parents = (
            ops.take(each, index, axis=1)[:, None]
            for each in (trace.tokens, trace.parents)
        )
        matches = tokens == ops.take(inputs, index, axis=2)[..., None]
        matches = matches & (parents == beam[..., None])
        beam = ops.cast(ops.argmax(matches, axis=-1), "int32")
        newest = ops.arange(steps) == index
        return index + 1, beam, ops.where(newest, beam[..., None], visited)

    _, _, visited = ops.while_loop(
        lambda index, beam, visited: index < steps,
        advance,
        (
            ops.convert_to_tensor(0, "int32"),
            ops.zeros((batch, hypotheses), dtype="int32"),
            ops.zeros_like(tokens),
        ),
    )
    return visited


def force_align(model, source, target, layer=None):
    """Returns how much each given target token attends to each source token.

    Takes a Transformer, or an Ensemble for the mean of its models; int32 [B, S]
    source and [B, T] target ids, each row ending with the end id, then padding;
    and a decoder layer, from 1 (see `Transformer.alignment`). In the result,
    float32 [B, T, S], row t is from the step that generates `target[:, t]`,
    sums to 1 and is 0 on padding.
    """
    scores = attention_scores(model, source, target)["cross"]
    return model.alignment(scores, layer)


def attention_scores(model, source, target):
    """Returns every head's attention while given targets are generated.

    It is the dict of the model's `attention`. Row t of `decoder` and `cross` is
    from the step that generates `target[:, t]`; the keys of `decoder` are its
    inputs, the begin id and `target[:, :-1]`. See also `force_align`.
    """
    return model.attention({"source": source, "target": shift_right(target)})


def shift_right(tokens):
    """Returns the decoder's input for int32 [..., T] output tokens."""
    begin = ops.full_like(tokens[..., :1], BEGIN_ID)
    return ops.concatenate([begin, tokens[..., :-1]], axis=-1)
