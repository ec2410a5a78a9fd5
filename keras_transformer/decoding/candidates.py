"""The best continuations of the live beams at a step of a beam search.

Letters: B sentences, K beams, V vocabulary.
"""

import math
import typing
from collections.abc import Callable, Sequence

from keras import ops, tree

from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.decoding.search_config import IMPOSSIBLE
from keras_transformer.decoding.terms import TermBeams
from keras_transformer.ids import arange, bound_ids, nan_unless
from keras_transformer.types import Tensor

# Logits per group in `_grouped_top_k`: nearly optimal for 10,000 to 40,000.
_GROUP_SIZE = 32


class Candidates(typing.NamedTuple):
    """The best continuations of the live beams, all [B, K]."""

    tokens: Tensor  # int32, of the K best that do not end, best first
    parents: Tensor  # int32, the live beams that they continue
    log_probs: Tensor  # float32
    end_log_probs: Tensor  # float32, of each live beam if it ends now
    may_end: Tensor  # boolean, whether its end is among the best candidates


def best_candidates(
    logits: Tensor,
    live_log_probs: Tensor,
    end_rank: int,
    suppress_tokens: Sequence[int] = (),
    too_short: Tensor | None = None,
    allowed: Tensor | None = None,
    terms: TermBeams | None = None,
    normalizer: Tensor | None = None,
    block: Callable[[Tensor], Tensor] | None = None,
) -> Candidates:
    """Returns the best Candidates for logits [B, K, V] and live beams [B, K].

    A beam may end if its end is among the `end_rank` best, at most 2K, and its
    sentence is not `too_short`, boolean [B]. Only tokens that are `allowed`,
    boolean [B, K, V], and not in `suppress_tokens` may follow; the
    probabilities of other tokens do not change. With `terms`, TermBeams, the
    candidates are divided among banks, and beams end with all their terms.
    `normalizer` [B, K] is the log-sum-exp of the logits if it is known, and
    `block` a function that excludes tokens from logits.
    Missing candidates have log-probability IMPOSSIBLE, and all have NaN if a
    beam's logits do.
    """
    logits = ops.cast(logits, "float32")
    beam_size, vocabulary = logits.shape[-2:]
    per_beam = min(2 * beam_size + len(suppress_tokens), vocabulary)
    all_logits = logits
    if allowed is not None and normalizer is None:
        normalizer = ops.logsumexp(logits, axis=-1)
    if block is not None:
        logits = block(logits)
    if allowed is not None:
        logits = ops.where(allowed, logits, IMPOSSIBLE)
    top_logits, top_tokens = _grouped_top_k(logits, per_beam)
    if normalizer is None:
        # The log-sum-exp is logit - log(softmax) of any token, here the most
        # likely. Softmax is one operation, log-sum-exp several passes over V.
        top_probability = ops.take_along_axis(
            ops.softmax(all_logits, axis=-1), top_tokens[..., :1], axis=-1
        )
        normalizer = (top_logits[..., :1] - ops.log(top_probability))[..., 0]
    end_rank = min(end_rank, beam_size * per_beam)
    if terms is not None:
        top_logits, top_tokens = terms.add_tokens(
            logits, top_logits, top_tokens
        )
        per_beam = ops.shape(top_tokens)[-1]
    offsets = live_log_probs - normalizer
    batch = ops.shape(logits)[0]
    count = beam_size * per_beam
    all_log_probs = top_logits + offsets[..., None]
    all_log_probs = ops.reshape(all_log_probs, (batch, count))
    tokens = ops.reshape(top_tokens, (batch, count))
    for token in suppress_tokens:
        all_log_probs = ops.where(tokens == token, IMPOSSIBLE, all_log_probs)
    if too_short is not None:
        ends = too_short[:, None] & (tokens == END_ID)
        all_log_probs = ops.where(ends, IMPOSSIBLE, all_log_probs)
    end_log_probs = logits[..., END_ID] + offsets
    continuing = ops.where(tokens == END_ID, IMPOSSIBLE, all_log_probs)
    if terms is None:
        log_probs, order = ops.top_k(continuing, beam_size)
    else:
        order, missing = terms.select(continuing, top_tokens, beam_size)
        log_probs = ops.take_along_axis(continuing, order, axis=1)
        # Ends compete with the candidates that have all terms.
        all_log_probs = ops.where(missing == 0, all_log_probs, IMPOSSIBLE)
        end_log_probs = ops.where(terms.may_end(), end_log_probs, IMPOSSIBLE)
    # A top k may select any other number before NaN.
    is_nan = ops.isnan(ops.sum(offsets, axis=-1, keepdims=True))
    log_probs = ops.where(is_nan, math.nan, log_probs)
    best, _ = ops.top_k(all_log_probs, end_rank)
    may_end = (end_log_probs >= best[:, -1:]) & (END_ID not in suppress_tokens)
    if too_short is not None:
        may_end = may_end & ~too_short[:, None]
    return Candidates(
        tokens=gather_beams(tokens, order),
        parents=ops.cast(order // per_beam, "int32"),
        log_probs=log_probs,
        end_log_probs=end_log_probs,
        may_end=may_end,
    )


def penalize_repetition(
    log_probs: Tensor, tokens: Tensor, index: Tensor, penalty: float
) -> Tensor:
    """Returns log-probabilities, times `penalty` those of repeated tokens.

    `log_probs` are float32 [B, K, V], `tokens`, int32 [B, K, T], those of each
    beam, of which `index` are generated.
    """
    # Padding is never generated.
    is_generated = arange(ops.shape(tokens)[-1]) < index
    repeated = ops.where(is_generated, tokens, PAD_ID)
    values = ops.take_along_axis(log_probs, repeated, axis=-1)
    return _set_columns(log_probs, repeated, penalty * values)


def block_repetition(
    logits: Tensor, tokens: Tensor, index: Tensor, size: int
) -> Tensor:
    """Returns logits without tokens that would repeat `size` tokens.

    Takes float32 [B, K, V]; for the others see `penalize_repetition`.
    """
    positions = arange(ops.shape(tokens)[-1])
    # Whether the same size - 1 tokens are before each token and at the end.
    is_repeated = (positions < index) & (positions >= size - 1)
    for distance in range(1, size):
        last = ops.take(tokens, ops.maximum(index - distance, 0), axis=-1)
        before = ops.roll(tokens, distance, axis=-1)
        is_repeated = is_repeated & (before == last[..., None])
    is_repeated = ops.broadcast_to(is_repeated, ops.shape(tokens))
    blocked = ops.where(is_repeated, tokens, PAD_ID)
    values = ops.full_like(blocked, IMPOSSIBLE, dtype="float32")
    # Few steps repeat anything, and changes copy the logits.
    return ops.cond(
        ops.any(is_repeated),
        lambda: _set_columns(logits, blocked, values),
        lambda: logits,
    )


def count_repetitions(tokens: Tensor, size: int) -> Tensor:
    """Returns how often the most frequent `size` tokens occur, int32 [B].

    `tokens` are int32 [B, T], each row padded at its end.
    """
    tokens = ops.pad(tokens, [[0, 0], [0, size]], constant_values=PAD_ID)
    count = ops.shape(tokens)[1] - size
    same = tokens[:, size - 1 : -1] != PAD_ID  # [B, count]
    same = same[:, :, None] & same[:, None]
    for start in range(size):
        column = tokens[:, start : start + count]
        same = same & (column[:, :, None] == column[:, None])
    return ops.max(ops.sum(ops.cast(same, "int32"), axis=2), axis=1)


def _set_columns(matrix, columns, values):
    """Sets values [B, K, T] at columns [B, K, T] of a matrix [B, K, V]."""
    batch, beams, size = ops.shape(matrix)
    rows = arange(batch * beams)[:, None]
    columns = ops.reshape(columns, (batch * beams, -1))
    indices = ops.stack([rows + ops.zeros_like(columns), columns], axis=-1)
    matrix = ops.scatter_update(
        ops.reshape(matrix, (batch * beams, size)),
        ops.reshape(indices, (-1, 2)),
        ops.reshape(values, (-1,)),
    )
    return ops.reshape(matrix, (batch, beams, size))


def forced_candidates(
    logits: Tensor,
    live_log_probs: Tensor,
    tokens: Tensor,
    allowed: Tensor | None = None,
) -> Candidates:
    """Returns Candidates that continue the first beam with int32 [B] tokens."""
    logits = ops.cast(logits, "float32")
    normalizer = ops.logsumexp(logits, axis=-1)
    if allowed is not None:
        logits = ops.where(allowed, logits, IMPOSSIBLE)
    tokens, is_inside = bound_ids(tokens, logits.shape[-1], "id of a prefix")
    tokens = ops.broadcast_to(tokens[:, None], ops.shape(live_log_probs))
    chosen = ops.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
    log_probs = live_log_probs + chosen - normalizer
    is_first = arange(logits.shape[-2]) == 0
    return Candidates(
        tokens=tokens,
        parents=ops.zeros_like(tokens),
        log_probs=ops.where(is_first, log_probs, IMPOSSIBLE)
        * nan_unless(is_inside, 1, log_probs.dtype)[:, None],
        end_log_probs=ops.full_like(log_probs, IMPOSSIBLE),
        may_end=ops.zeros_like(tokens, dtype="bool"),
    )


def _grouped_top_k(logits, count):
    """Returns the `count` highest of [B, K, V], and their int32 indices."""
    # The highest are in the `count` groups of neighbours with the highest
    # maxima, so that only these groups are sorted.
    vocabulary = logits.shape[-1]
    divisors = [n for n in range(1, 129) if vocabulary % n == 0]
    width = min(divisors, key=lambda n: abs(n - _GROUP_SIZE))
    groups = vocabulary // width
    if groups <= count or width == 1:
        values, indices = ops.top_k(logits, count)
        return values, ops.cast(indices, "int32")
    batch, beams = ops.shape(logits)[:2]
    grouped = ops.reshape(logits, (batch * beams, groups, width))
    _, best_groups = ops.top_k(ops.max(grouped, axis=-1), count)
    best_groups = ops.cast(best_groups, "int32")
    # Selects matrix rows: take_along_axis would transpose all logits.
    rows = best_groups + groups * arange(batch * beams)[:, None]
    values = ops.take(ops.reshape(logits, (-1, width)), rows, axis=0)
    values = ops.reshape(values, (batch, beams, count * width))
    values, indices = ops.top_k(values, count)
    indices = ops.cast(indices, "int32")
    best_groups = ops.reshape(best_groups, (batch, beams, count))
    group = ops.take_along_axis(best_groups, indices // width, axis=-1)
    return values, group * width + indices % width


def gather_beams(nest: typing.Any, parents: Tensor) -> typing.Any:
    """Selects parent beams, int32 [B, K], in a nest of [B, K, ...]."""
    first, *_ = tree.flatten(nest)
    batch, count = ops.shape(first)[:2]
    rows = parents + count * arange(batch)[:, None]

    def gather(values):
        # Fewer and faster operations than those of take_along_axis.
        values = ops.reshape(values, (-1, *ops.shape(values)[2:]))
        return ops.take(values, rows, axis=0)

    return tree.map_structure(gather, nest)
