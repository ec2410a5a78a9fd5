"""Beam search with a length penalty: section 6.1."""

import typing

from keras import ops

from keras_transformer.length_penalty import length_penalty as penalise
from keras_transformer.special_ids import BEGIN_ID, END_ID, PAD_ID

# Stands for log 0. Finite, so that sums and comparisons stay finite.
_IMPOSSIBLE = -1e9


class BeamSearchResult(typing.NamedTuple):
    """The best hypotheses of each sentence, best first.

    Attributes:
        tokens: int32 [B, K, T], ending with the end id, then padding.
        scores: float32 [B, K], log-probability / length penalty; -1e9 where
            there are fewer than K possible hypotheses.
    """

    tokens: typing.Any
    scores: typing.Any


class _Search(typing.NamedTuple):
    """The loop's state; the live beams are unfinished hypotheses.

    Attributes:
        index: int32 scalar, tokens produced so far.
        live_tokens: int32 [B, K, T].
        live_log_probs: float32 [B, K], best first.
        parents: int32 [B, K], the beam that each live beam continues.
        done_tokens: int32 [B, K, T], the best finished hypotheses.
        done_scores: float32 [B, K], best first.
        stopped: boolean [B]: no live beam can still enter the finished ones.
        state: whatever `step` carries.
    """

    index: typing.Any
    live_tokens: typing.Any
    live_log_probs: typing.Any
    parents: typing.Any
    done_tokens: typing.Any
    done_scores: typing.Any
    stopped: typing.Any
    state: typing.Any


def beam_search(
    step,
    state,
    max_lengths,
    max_length,
    beam_size=4,
    alpha=0.6,
    length_penalty="gnmt",
    never=(),
):
    """Finds the hypotheses with the highest penalised log-probability.

    At each step the 2K best continuations of the K live beams are looked at:
    those that end join the finished hypotheses, of which the K best are
    kept and never changed again; the K best others live on. At its maximum
    length a hypothesis can only end. A sentence stops when its best live
    log-probability / penalty at its maximum length, which no continuation
    can exceed, is not above its worst kept finished score; stopping early
    never changes the result, and neither do the other sentences.

    Letters: B sentences, K beams, V vocabulary, T max_length.

    Args:
        step: function (tokens int32 [B, K], parents int32 [B, K], index
            int32 scalar, state) -> (logits float [B, K, V], state). `tokens`
            are each beam's last token, `parents` the beam of the step before
            that it continues, and `index` counts from 0.
        state: what `step` carries along; a nest of tensors of fixed shapes.
        max_lengths: int32 [B], at least 1 and at most `max_length`: tokens a
            sentence's hypotheses may have, the end id counted.
        max_length: T, room for tokens: a number, or an int32 scalar.
        beam_size: K.
        alpha: exponent of the length penalty, at least 0.
        length_penalty: "gnmt" or "power"; see
            `keras_transformer.length_penalty`.
        never: ids that no hypothesis may hold. The probabilities of the
            others stay as they are.

    Returns:
        BeamSearchResult.

    Raises:
        ValueError: `beam_size` or `alpha` is out of range.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1, not {beam_size}.")
    if alpha < 0:
        raise ValueError(f"alpha must be at least 0, not {alpha}.")
    max_lengths = ops.cast(max_lengths, "int32")
    penalty_at_end = penalise(max_lengths, alpha, length_penalty)

    def unfinished(*search):
        search = _Search(*search)
        within = search.index < max_length
        return ops.logical_and(within, ops.logical_not(ops.all(search.stopped)))

    def advance(*search):
        search = _Search(*search)
        tokens = _last_tokens(search.live_tokens, search.index)
        logits, new_state = step(
            tokens, search.parents, search.index, search.state
        )
        length = search.index + 1
        candidates = _candidates(
            logits, search.live_log_probs, beam_size, never
        )
        at_limit = ops.expand_dims(length >= max_lengths, 1)
        endings = ops.where(
            ops.logical_and(
                search.live_log_probs > 0.5 * _IMPOSSIBLE,
                ops.logical_or(candidates.may_end, at_limit),
            ),
            candidates.end_log_probs / penalise(length, alpha, length_penalty),
            _IMPOSSIBLE,
        )
        done_tokens, done_scores = _keep_best(
            search, endings, _put(search.live_tokens, END_ID, search.index)
        )
        live_tokens = _put(
            _gather_beams(search.live_tokens, candidates.parents),
            candidates.tokens,
            search.index,
        )
        bound = candidates.log_probs[:, 0] / penalty_at_end
        stopped = ops.logical_or(
            ops.logical_or(search.stopped, at_limit[:, 0]),
            bound <= done_scores[:, -1],
        )
        return _Search(
            index=length,
            live_tokens=live_tokens,
            live_log_probs=candidates.log_probs,
            parents=candidates.parents,
            done_tokens=done_tokens,
            done_scores=done_scores,
            stopped=stopped,
            state=new_state,
        )

    batch = ops.shape(max_lengths)[0]
    result = _Search(
        *ops.while_loop(
            unfinished,
            advance,
            tuple(_start(batch, beam_size, max_length, state)),
        )
    )
    return BeamSearchResult(result.done_tokens, result.done_scores)


def _start(batch, beam_size, max_length, state):
    tokens = ops.full((batch, beam_size, max_length), PAD_ID, dtype="int32")
    # All beams are the same at first: only the first one counts.
    others = ops.full((batch, beam_size - 1), _IMPOSSIBLE, dtype="float32")
    first = ops.zeros((batch, 1), dtype="float32")
    return _Search(
        index=ops.convert_to_tensor(0, "int32"),
        live_tokens=tokens,
        live_log_probs=ops.concatenate([first, others], axis=1),
        parents=ops.zeros((batch, beam_size), dtype="int32"),
        done_tokens=tokens,
        done_scores=ops.full((batch, beam_size), _IMPOSSIBLE, dtype="float32"),
        stopped=ops.zeros((batch,), dtype="bool"),
        state=state,
    )


class _Candidates(typing.NamedTuple):
    """What may follow the live beams.

    Attributes:
        tokens: int32 [B, K], of the K best that do not end, best first.
        parents: int32 [B, K], the beams they continue.
        log_probs: float32 [B, K].
        end_log_probs: float32 [B, K], of each live beam ending here.
        may_end: boolean [B, K], whether that is among the 2K best of all.
    """

    tokens: typing.Any
    parents: typing.Any
    log_probs: typing.Any
    end_log_probs: typing.Any
    may_end: typing.Any


def _candidates(logits, live_log_probs, beam_size, never):
    logits = ops.cast(logits, "float32")
    vocabulary = logits.shape[-1]
    per_beam = min(2 * beam_size + len(never), vocabulary)
    # Within a beam logits and log-probabilities have the same order, so the
    # normaliser is added to the few that are kept and not to all V.
    offsets = live_log_probs - ops.logsumexp(logits, axis=-1)
    top_logits, top_tokens = ops.top_k(logits, per_beam)
    batch = ops.shape(logits)[0]
    flat = ops.reshape(
        top_logits + offsets[..., None], (batch, beam_size * per_beam)
    )
    tokens = ops.cast(ops.reshape(top_tokens, ops.shape(flat)), "int32")
    for number in never:
        flat = ops.where(tokens == number, _IMPOSSIBLE, flat)
    best, _ = ops.top_k(flat, min(2 * beam_size, beam_size * per_beam))
    end_log_probs = logits[..., END_ID] + offsets
    continuing = ops.where(tokens == END_ID, _IMPOSSIBLE, flat)
    log_probs, order = ops.top_k(continuing, beam_size)
    return _Candidates(
        tokens=ops.take_along_axis(tokens, order, axis=1),
        parents=ops.cast(order // per_beam, "int32"),
        log_probs=log_probs,
        end_log_probs=end_log_probs,
        may_end=end_log_probs >= best[:, -1:],
    )


def _keep_best(search, endings, ended_tokens):
    # A stopped sentence keeps what it has: a tie must not change it.
    endings = ops.where(search.stopped[:, None], _IMPOSSIBLE, endings)
    scores = ops.concatenate([search.done_scores, endings], axis=1)
    tokens = ops.concatenate([search.done_tokens, ended_tokens], axis=1)
    kept, order = ops.top_k(scores, ops.shape(search.done_scores)[1])
    return _gather_beams(tokens, order), kept


def _last_tokens(live_tokens, index):
    previous = ops.take(live_tokens, ops.maximum(index - 1, 0), axis=2)
    return ops.where(index > 0, previous, BEGIN_ID)


def _put(tokens, new, index):
    """Returns [B, K, T] tokens with `new` [B, K] or a number at `index`."""
    here = ops.arange(ops.shape(tokens)[2]) == index
    new = ops.convert_to_tensor(new, "int32")
    new = new[..., None] if len(new.shape) else new
    return ops.where(here, new, tokens)


def _gather_beams(values, beams):
    return ops.take_along_axis(values, beams[..., None], axis=1)
