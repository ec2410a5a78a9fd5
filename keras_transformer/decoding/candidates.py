"""Candidates: which tokens may follow the live beams (section 6.1)."""

import typing

from keras import ops, tree

from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.decoding.rules import is_unset

# Stands for log 0. Finite, so that sums and comparisons stay finite.
IMPOSSIBLE = -1e9

# Logits in a group when the highest are looked for: near the fastest for 10,000
# to 40,000 logits.
_GROUP = 32


class Candidates(typing.NamedTuple):
    """What may follow the live beams.

    Attributes:
        tokens: int32 [B, K], of the K best that do not end, best first.
        parents: int32 [B, K], the beams they continue.
        log_probs: float32 [B, K].
        end_log_probs: float32 [B, K], of each live beam ending here.
        may_end: boolean [B, K], whether that is among the best of all.
    """

    tokens: typing.Any
    parents: typing.Any
    log_probs: typing.Any
    end_log_probs: typing.Any
    may_end: typing.Any


def allowed_candidates(
    logits, live_log_probs, index, rules, constraints, grammar
):
    """Returns the best candidates that rules and constraints allow.

    Args:
        logits: float [B, K, V], of what follows each beam.
        live_log_probs: float32 [B, K], of the beams themselves.
        index: int32 scalar, tokens that they have.
        rules: BeamSearchConfig.
        constraints: Constraints; a prefix ends with a column of padding.
        grammar: the grammar's state, nest of [B, K, ...]; () without one.

    Returns:
        Candidates.
    """
    too_short = allowed = None
    if not is_unset(constraints.min_lengths):
        # At its maximum length a hypothesis ends all the same.
        too_short = index + 1 < constraints.min_lengths  # [B]
    if rules.grammar is not None:
        allowed = rules.grammar.allowed(grammar)  # [B, K, V]
    request = logits, live_log_probs
    free = best_candidates(
        *request, rules.end_rank, rules.never, too_short, allowed
    )
    if is_unset(constraints.prefix):
        return free
    last = ops.shape(constraints.prefix)[1] - 1
    forced = ops.take(constraints.prefix, ops.minimum(index, last), axis=1)
    within = forced != PAD_ID  # [B]
    within = ops.logical_and(within, index + 1 < constraints.max_lengths)
    return tree.map_structure(
        lambda one, other: ops.where(within[:, None], one, other),
        forced_candidates(*request, forced, allowed),
        free,
    )


def best_candidates(
    logits,
    live_log_probs,
    end_rank,
    never=(),
    too_short=None,
    allowed=None,
):
    """Returns the best candidates of the live beams.

    Args:
        logits: float [B, K, V], of what follows each beam.
        live_log_probs: float32 [B, K], of the beams themselves.
        end_rank: a beam may end if that is among so many best, at most 2K.
        never: ids that may not follow. The probabilities of the others stay
            as they are.
        too_short: boolean [B], where nothing may end here; None for nowhere.
        allowed: boolean [B, K, V], what may follow; None for everything.

    Returns:
        Candidates; where fewer are allowed, the others are impossible.
    """
    logits = ops.cast(logits, "float32")
    beam_size, vocabulary = logits.shape[-2:]
    per_beam = min(2 * beam_size + len(never), vocabulary)
    if allowed is None:
        top_logits, top_tokens = _highest(logits, per_beam)
        normaliser = log_normaliser(logits, top_logits, top_tokens)
    else:
        normaliser = ops.logsumexp(logits, axis=-1)
        logits = ops.where(allowed, logits, IMPOSSIBLE)
        top_logits, top_tokens = _highest(logits, per_beam)
    offsets = live_log_probs - normaliser
    batch = ops.shape(logits)[0]
    flat = ops.reshape(
        top_logits + offsets[..., None], (batch, beam_size * per_beam)
    )
    tokens = ops.reshape(top_tokens, (batch, beam_size * per_beam))
    for number in never:
        flat = ops.where(tokens == number, IMPOSSIBLE, flat)
    if too_short is not None:
        ends = ops.logical_and(too_short[:, None], tokens == END_ID)
        flat = ops.where(ends, IMPOSSIBLE, flat)
    best, _ = ops.top_k(flat, min(end_rank, beam_size * per_beam))
    end_log_probs = logits[..., END_ID] + offsets
    continuing = ops.where(tokens == END_ID, IMPOSSIBLE, flat)
    log_probs, order = ops.top_k(continuing, beam_size)
    may_end = end_log_probs >= best[:, -1:]
    if too_short is not None:
        may_end = ops.logical_and(may_end, ops.logical_not(too_short)[:, None])
    return Candidates(
        tokens=ops.take_along_axis(tokens, order, axis=1),
        parents=ops.cast(order // per_beam, "int32"),
        log_probs=log_probs,
        end_log_probs=end_log_probs,
        may_end=may_end,
    )


def forced_candidates(logits, live_log_probs, forced, allowed=None):
    """Returns the only candidate that a prefix leaves: the first beam's.

    Args:
        logits: float [B, K, V].
        live_log_probs: float32 [B, K]; all but the first beam are impossible.
        forced: int32 [B], the token that must follow.
        allowed: as for `best_candidates`; where that forbids it, nothing is
            left.

    Returns:
        Candidates.
    """
    logits = ops.cast(logits, "float32")
    normaliser = ops.logsumexp(logits, axis=-1)
    if allowed is not None:
        logits = ops.where(allowed, logits, IMPOSSIBLE)
    beam_size = logits.shape[-2]
    numbers = ops.broadcast_to(forced[:, None], ops.shape(live_log_probs))
    chosen = ops.take_along_axis(logits, numbers[..., None], axis=-1)[..., 0]
    log_probs = live_log_probs + chosen - normaliser
    first = ops.arange(beam_size) == 0
    return Candidates(
        tokens=numbers,
        parents=ops.zeros_like(numbers),
        log_probs=ops.where(first, log_probs, IMPOSSIBLE),
        end_log_probs=ops.full_like(log_probs, IMPOSSIBLE),
        may_end=ops.zeros_like(numbers, dtype="bool"),
    )


def log_normaliser(logits, top_logits, top_tokens):
    """Returns log sum exp of the logits: float32 [..., V] to [...].

    Taken from the probability that a softmax gives to the likeliest token:
    a softmax is one operation, a log-sum-exp several passes over V.

    Args:
        logits: float32 [..., V].
        top_logits: float32 [..., n], the highest ones, best first.
        top_tokens: int32 [..., n], where they stand.
    """
    highest = ops.take_along_axis(
        ops.softmax(logits, axis=-1), top_tokens[..., :1], axis=-1
    )
    return (top_logits[..., :1] - ops.log(highest))[..., 0]


def _highest(logits, count):
    """The `count` highest of [B, K, V]: values and int32 places, best first.

    They stand in the `count` groups whose maxima are highest, so only those
    groups are sorted.
    """
    vocabulary = logits.shape[-1]
    width = _group_width(vocabulary)
    groups = vocabulary // width
    if groups <= count or width == 1:
        values, places = ops.top_k(logits, count)
        return values, ops.cast(places, "int32")
    batch, beams = ops.shape(logits)[:2]
    grouped = ops.reshape(logits, (batch * beams, groups, width))
    _, best = ops.top_k(ops.max(grouped, axis=-1), count)
    best = ops.cast(best, "int32")
    # Rows of a matrix: take_along_axis would transpose all logits.
    rows = best + groups * ops.arange(batch * beams)[:, None]
    kept = ops.take(ops.reshape(logits, (-1, width)), rows, axis=0)
    kept = ops.reshape(kept, (batch, beams, count * width))
    best = ops.reshape(best, (batch, beams, count))
    values, places = ops.top_k(kept, count)
    places = ops.cast(places, "int32")
    group = ops.take_along_axis(best, places // width, axis=-1)
    return values, group * width + places % width


def _group_width(vocabulary):
    """The divisor of V that is nearest to the wanted width."""
    divisors = [n for n in range(1, 129) if vocabulary % n == 0]
    return min(divisors, key=lambda n: abs(n - _GROUP))
