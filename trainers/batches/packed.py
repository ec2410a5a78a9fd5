"""Plans batches whose rows are packed with several sentence pairs."""

import itertools
from collections.abc import Iterator

import numpy as np

from trainers.batches.batch_plan import BatchPlan, Bucket, batching_cost

# Expected number of rows relative to perfect packing. If packing needs more,
# other row lengths are tried until padding is below _GOOD_PADDING.
_ROWS_FACTOR = 1.004
_MAX_TRIES = 4
_GOOD_PADDING = 0.01
# Random pairs to fill rows with are drawn once and reused cyclically.
_DRAWS = 100_000
# Number of drawn pairs that do not fit before best fit fills the row.
_MAX_MISSES = 20
# Maximum number of positions, of both sides, that best fit leaves empty.
_MAX_EMPTY = 6
# Lengths are multiples of 1 + mean length // _LONG in packing.
_LONG = 64
# The longest pairs get a bucket of their own only if that saves more than this
# fraction, since its updates have few pairs.
_MIN_SPLIT_SAVING = 0.05
# Row length at which attention costs as much as everything else.
_COSTLY_ROW = 1024


def plan_packed(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    batch_tokens: int,
    row_tokens: int,
    seed: int,
) -> BatchPlan:
    """Packs pairs into rows, once; the rows are shuffled each epoch.

    Lengths are int [pairs], 1 to `batch_tokens`, the maximum number of
    positions of a batch per side; for `row_tokens` see `row_shapes`. The
    BatchPlan has one bucket, or more if very long pairs need longer rows.
    """
    mean = max(source_lengths.mean(), target_lengths.mean())
    # Counting in blocks of positions, long sentences have few distinct lengths.
    block = min(1 + int(mean) // _LONG, batch_tokens)
    max_blocks, row_blocks = batch_tokens // block, max(row_tokens // block, 1)
    blocks = np.stack([source_lengths, target_lengths]).astype(np.int32)
    blocks = np.minimum(-(-blocks // block), max_blocks)
    remaining, buckets = np.arange(blocks.shape[1]), []
    while remaining.size:
        fits = _fits_bucket(blocks[:, remaining], max_blocks, row_blocks)
        indices, remaining = remaining[fits], remaining[~fits]
        bucket_blocks = blocks[:, indices]
        tokens = source_lengths[indices].sum() + target_lengths[indices].sum()
        candidates = []
        for block_shape in row_shapes(bucket_blocks, max_blocks, row_blocks):
            packed, starts = _pack(bucket_blocks, block_shape, seed)
            # The last block includes the remainder of `batch_tokens`.
            shape = [
                batch_tokens if side == max_blocks else side * block
                for side in block_shape
            ]
            candidates.append(
                Bucket.balanced(indices[packed], starts, shape, batch_tokens)
            )
            if 1 - tokens / candidates[-1].num_positions < _GOOD_PADDING:
                break
        buckets.append(min(candidates, key=lambda bucket: bucket.num_positions))
    return BatchPlan(buckets, seed, is_packed=True)


def _fits_bucket(lengths, batch_tokens, row_tokens):
    """Returns bool [pairs]: whether each goes into the next bucket."""
    totals = lengths.sum(axis=1)
    source_share, target_share = totals / totals.max()
    # The longer side of the rows in which each pair fits.
    needed = np.maximum(lengths[0] / source_share, lengths[1] / target_share)
    longest = min(needed.max(), batch_tokens)
    limits = [longest]
    limit = row_tokens
    while limit < longest:
        limits.append(limit)
        limit *= 2

    def cost(limit):
        fits = needed <= limit
        if not fits.any():
            return np.inf
        groups = [lengths[:, each] for each in (fits, ~fits) if each.any()]
        total = 0
        for group in groups:
            shapes, costs = _shape_costs(group, batch_tokens, row_tokens)
            total += (costs * (1 + shapes.max(axis=0) / _COSTLY_ROW)).min()
        return total * (1 - _MIN_SPLIT_SAVING * (limit == longest))

    return needed <= min(limits, key=cost)


def row_shapes(
    lengths: np.ndarray, batch_tokens: int, row_tokens: int
) -> list[tuple[int, int]]:
    """Returns a list of row shapes (S, T) for int [2, pairs], cheapest first.

    S and T have the ratio of all source ids to all target ids. The longer one
    is `row_tokens`; up to an eighth less if that fills batches better, and
    more if the longest sentence needs it.
    """
    shapes, costs = _shape_costs(lengths, batch_tokens, row_tokens)
    cheapest = np.argsort(costs, kind="stable")[:_MAX_TRIES]
    return [tuple(shape) for shape in shapes.T[cheapest].tolist()]


def _shape_costs(lengths, batch_tokens, row_tokens):
    """Returns row shapes, int [2, n], and their costs, [n]."""
    totals, longest = lengths.sum(axis=1), lengths.max(axis=1)
    share = totals / totals.max()
    shortest_row = min(int(np.ceil((longest / share).max())), batch_tokens)
    row_tokens = max(min(row_tokens, batch_tokens), shortest_row)
    # In descending order, so that the longest is first among equals.
    end = max(row_tokens * 7 // 8, shortest_row) - 1
    longer = np.arange(row_tokens, end, -1)
    shapes = np.rint(longer * share[:, None]).astype(int)
    shapes = np.maximum(shapes, longest[:, None])
    rows = np.ceil((totals[:, None] / shapes).max(axis=0) * _ROWS_FACTOR)
    return shapes, batching_cost(rows.astype(int), *shapes, batch_tokens)


def _pack(lengths, row_shape, seed):
    """Returns pair_indices and starts of a Bucket with rows of (S, T)."""
    random = np.random.default_rng(seed)
    histogram = LengthHistogram(*lengths)
    length_ids = histogram.length_ids
    draws = itertools.cycle(random.choice(length_ids, _DRAWS).tolist())
    packed_ids, row_sizes = [], []
    while histogram.remaining:
        pattern, repeats = histogram.take_pattern(row_shape, draws)
        packed_ids.append(np.tile(pattern, repeats))
        row_sizes.append(np.full(repeats, len(pattern)))
    packed_ids = np.concatenate(packed_ids)
    # Pairs of the same lengths take their places at random.
    shuffled = random.permutation(len(length_ids))
    by_lengths = shuffled[np.argsort(length_ids[shuffled], kind="stable")]
    pair_indices = np.empty_like(by_lengths)
    pair_indices[np.argsort(packed_ids, kind="stable")] = by_lengths
    return pair_indices, np.cumsum(np.concatenate([[0], *row_sizes]))


class LengthHistogram:
    """Counts the unpacked pairs of each (source length, target length).

    A length id is source length x (longest target + 1) + target length. A
    pattern, the length ids of a row, is repeated as often as the counts allow,
    so that time grows with the number of distinct lengths, not of pairs.
    """

    def __init__(self, source_lengths: np.ndarray, target_lengths: np.ndarray):
        self._longest = int(source_lengths.max()), int(target_lengths.max())
        self._width = self._longest[1] + 1
        self.length_ids = source_lengths.astype(np.int64) * self._width
        self.length_ids += target_lengths
        self.remaining = len(self.length_ids)
        self._counts = np.bincount(
            self.length_ids, minlength=(self._longest[0] + 1) * self._width
        )
        length_ids = np.flatnonzero(self._counts)
        source, target = np.divmod(length_ids, self._width)
        sizes = source / self._longest[0] + target / self._longest[1]
        order = np.argsort(-sizes, kind="stable")
        self._by_size = length_ids[order], source[order], target[order]
        # Length id 0, no pair, is the partner of a pair that closes a row.
        self._counts[0] = self.remaining
        # Two pairs of usual lengths close a row with at most this much space.
        self._closable = 2 * source_lengths.mean(), 2 * target_lengths.mean()

    def take_pattern(
        self, space: tuple[int, int], draws: Iterator[int]
    ) -> tuple[np.ndarray, int]:
        """Removes the pairs of a pattern; returns it and its row count.

        A row gets the largest remaining pair, so that the end has small ones,
        then pairs drawn at random, then the best fit.
        """
        row: list[int] = []
        space = self._take(self._largest(space), row, space)
        space = self._take_drawn(draws, row, space)
        while length_ids := self._best_fit(space) or self._largest(space):
            space = self._take(length_ids, row, space)
        length_ids, counts = np.unique(row, return_counts=True)
        repeats = int((self._counts[length_ids] // counts).min())
        self._counts[length_ids] -= repeats * counts
        self.remaining -= repeats * len(row)
        return np.array(row), repeats + 1

    def _take(self, length_ids, row, space):
        """Moves pairs to a row; returns its remaining space."""
        source_space, target_space = space
        for length_id in length_ids:
            self._counts[length_id] -= 1
            self.remaining -= 1
            row.append(length_id)
            source, target = divmod(length_id, self._width)
            source_space -= source
            target_space -= target
        return source_space, target_space

    def _take_drawn(self, draws, row, space):
        misses = 0
        while not self._is_closable(space) and misses < _MAX_MISSES:
            length_id = next(draws)
            source, target = divmod(length_id, self._width)
            fits = source <= space[0] and target <= space[1]
            if fits and self._counts[length_id]:
                space = self._take([length_id], row, space)
            else:
                misses += 1
        return space

    def _is_closable(self, space):
        return space[0] <= self._closable[0] or space[1] <= self._closable[1]

    def _largest(self, space):
        """Returns a list of the length id of the largest pair that fits."""
        length_ids, source, target = self._by_size
        fits = (source <= space[0]) & (target <= space[1])
        fits &= self._counts[length_ids] > 0
        first = int(fits.argmax())
        return [int(length_ids[first])] if fits[first] else []

    def _best_fit(self, space):
        """Returns one or two length ids that leave the least space, or []."""
        if not self._is_closable(space):
            return []
        for empty in range(_MAX_EMPTY + 1):
            for source_empty in range(empty + 1):
                length_ids = self._exact_fit(
                    space[0] - source_empty, space[1] - empty + source_empty
                )
                if length_ids:
                    return length_ids
        return []

    def _exact_fit(self, source, target):
        """Returns the most frequent length ids of this total, at most two."""
        if source < 1 or target < 1:
            return []
        first_source = max(0, source - self._longest[0])
        first_target = max(0, target - self._longest[1])
        counts = self._counts.reshape(-1, self._width)[
            first_source : source - first_source + 1,
            first_target : target - first_target + 1,
        ]
        if not counts.size:
            return []
        # Reversed on both axes, each length id meets its partner.
        matches = np.minimum(counts, counts[::-1, ::-1])
        if source % 2 == target % 2 == 0:
            middle = source // 2 - first_source, target // 2 - first_target
            matches[middle] //= 2
        row, column = divmod(int(matches.argmax()), matches.shape[1])
        if not matches[row, column]:
            return []
        length_id = (first_source + row) * self._width + first_target + column
        partner = source * self._width + target - length_id
        return [each for each in (length_id, partner) if each]
