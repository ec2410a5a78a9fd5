"""Selects the tokens that continue the live beams (section 6.1)."""

import typing

from keras import ops, tree

from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.decoding.search_config import is_unset

# Represents log 0. Finite, so that sums and comparisons stay finite.
IMPOSSIBLE = -1e9

# Logits per group in the search for the highest: nearly optimal for 10,000 to
# 40,000 logits.
_GROUP = 32


class Candidates(typing.NamedTuple):
    """The best continuations of the live beams, all [B, K]."""

    tokens: typing.Any  # int32, of the K best that do not end, best first
    parents: typing.Any  # int32, the beams that they continue
    log_probs: typing.Any  # float32
    end_log_probs: typing.Any  # float32, of each live beam if it ends here
    may_end: typing.Any  # boolean, whether that is among the best of all


def allowed_candidates(
    logits, live_log_probs, index, config, constraints, grammar
):
    """Returns the best Candidates that the search allows.

    Takes the logits of the next token, float [B, K, V]; log-probabilities of
    the beams, float32 [B, K]; their number of tokens, int32 scalar; Constraints
    whose prefix ends with a column of padding; and the grammar's state.
    """
    too_short = allowed = None
    if not is_unset(constraints.min_lengths):
        # The maximum length overrides the minimum.
        too_short = index + 1 < constraints.min_lengths  # [B]
    if config.grammar is not None:
        allowed = config.grammar.allowed(grammar)  # [B, K, V]
    unforced = best_candidates(
        *(logits, live_log_probs, config.end_rank),
        *(config.suppress_tokens, too_short, allowed),
    )
    if is_unset(constraints.prefix):
        return unforced
    last = ops.shape(constraints.prefix)[1] - 1
    forced = ops.take(constraints.prefix, ops.minimum(index, last), axis=1)
    within = (forced != PAD_ID) & (index + 1 < constraints.max_lengths)  # [B]
    return tree.map_structure(
        lambda one, other: ops.where(within[:, None], one, other),
        forced_candidates(logits, live_log_probs, forced, allowed),
        unforced,
    )


def best_candidates(
    logits,
    live_log_probs,
    end_rank,
    suppress_tokens=(),
    too_short=None,
    allowed=None,
):
    """Returns the best Candidates; see `allowed_candidates`.

    A beam may end if its end is among the `end_rank` best, at most 2K, and not
    `too_short`, boolean [B]. Only tokens that are `allowed`, boolean [B, K, V],
    and not in `suppress_tokens` may follow; the probabilities of other tokens
    do not change. Missing candidates have log-probability IMPOSSIBLE.
    """
    logits = ops.cast(logits, "float32")
    beam_size, vocabulary = logits.shape[-2:]
    per_beam = min(2 * beam_size + len(suppress_tokens), vocabulary)
    if allowed is None:
        top_logits, top_tokens = _highest(logits, per_beam)
        # Softmax is one operation, a log-sum-exp several passes over V.
        highest = ops.take_along_axis(
            ops.softmax(logits, axis=-1), top_tokens[..., :1], axis=-1
        )
        normalizer = (top_logits[..., :1] - ops.log(highest))[..., 0]
    else:
        normalizer = ops.logsumexp(logits, axis=-1)
        logits = ops.where(allowed, logits, IMPOSSIBLE)
        top_logits, top_tokens = _highest(logits, per_beam)
    offsets = live_log_probs - normalizer
    batch = ops.shape(logits)[0]
    flat = ops.reshape(
        top_logits + offsets[..., None], (batch, beam_size * per_beam)
    )
    tokens = ops.reshape(top_tokens, (batch, beam_size * per_beam))
    for token in suppress_tokens:
        flat = ops.where(tokens == token, IMPOSSIBLE, flat)
    if too_short is not None:
        ends = too_short[:, None] & (tokens == END_ID)
        flat = ops.where(ends, IMPOSSIBLE, flat)
    best, _ = ops.top_k(flat, min(end_rank, beam_size * per_beam))
    end_log_probs = logits[..., END_ID] + offsets
    continuing = ops.where(tokens == END_ID, IMPOSSIBLE, flat)
    log_probs, order = ops.top_k(continuing, beam_size)
    may_end = end_log_probs >= best[:, -1:]
    if too_short is not None:
        may_end = may_end & ~too_short[:, None]
    return Candidates(
        tokens=ops.take_along_axis(tokens, order, axis=1),
        parents=ops.cast(order // per_beam, "int32"),
        log_probs=log_probs,
        end_log_probs=end_log_probs,
        may_end=may_end,
    )


def forced_candidates(logits, live_log_probs, forced, allowed=None):
    """Returns Candidates with `forced`, int32 [B], in the first beam only."""
    logits = ops.cast(logits, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    if allowed is not None:
        logits = ops.where(allowed, logits, IMPOSSIBLE)
    beam_size = logits.shape[-2]
    tokens = ops.broadcast_to(forced[:, None], ops.shape(live_log_probs))
    chosen = ops.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    log_probs = live_log_probs + chosen - normalizer
    first = ops.arange(beam_size) == 0
    return Candidates(
        tokens=tokens,
        parents=ops.zeros_like(tokens),
        log_probs=ops.where(first, log_probs, IMPOSSIBLE),
        end_log_probs=ops.full_like(log_probs, IMPOSSIBLE),
        may_end=ops.zeros_like(tokens, dtype="bool"),
    )


def _highest(logits, count):
    """Returns the `count` highest of [B, K, V], and their int32 indices."""
    # They lie in the `count` groups with the highest maxima; sort only these.
    vocabulary = logits.shape[-1]
    divisors = [n for n in range(1, 129) if vocabulary % n == 0]
    width = min(divisors, key=lambda n: abs(n - _GROUP))
    groups = vocabulary // width
    if groups <= count or width == 1:
        values, indices = ops.top_k(logits, count)
        return values, ops.cast(indices, "int32")
    batch, beams = ops.shape(logits)[:2]
    grouped = ops.reshape(logits, (batch * beams, groups, width))
    _, best = ops.top_k(ops.max(grouped, axis=-1), count)
    best = ops.cast(best, "int32")
    # Selects matrix rows: take_along_axis would transpose all logits.
    rows = best + groups * ops.arange(batch * beams)[:, None]
    values = ops.take(ops.reshape(logits, (-1, width)), rows, axis=0)
    values = ops.reshape(values, (batch, beams, count * width))
    values, indices = ops.top_k(values, count)
    indices = ops.cast(indices, "int32")
    best = ops.reshape(best, (batch, beams, count))
    group = ops.take_along_axis(best, indices // width, axis=-1)
    return values, group * width + indices % width
