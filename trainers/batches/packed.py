"""Plans batches whose rows are packed with several sentence pairs."""

import itertools

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
_MAX_REST = 6
# Mean sentence length per unit of packing, see `plan_packed`.
_LONG = 64
# The longest pairs get a bucket of their own only if that saves more than this
# share, since its updates have few pairs.
_MIN_SPLIT_SAVING = 0.05
# Row length at which attention costs as much as everything else.
_COSTLY_ROW = 1024


def plan_packed(source_lengths, target_lengths, batch_tokens, row_tokens, seed):
    """Packs pairs into rows, once; the rows are shuffled each epoch.

    Lengths are int [pairs], 1 to `batch_tokens`, the maximum number of
    positions of a batch per side; for `row_tokens` see `row_lengths`. The
    BatchPlan has one bucket, or more if very long pairs need longer rows.
    """
    mean = max(source_lengths.mean(), target_lengths.mean())
    # Units of several positions, so that long sentences have few kinds.
    unit = min(1 + int(mean) // _LONG, batch_tokens)
    budget, row_tokens = batch_tokens // unit, max(row_tokens // unit, 1)
    units = np.stack(
        [
            np.minimum(-(-side.astype(np.int64) // unit), budget)
            for side in (source_lengths, target_lengths)
        ]
    )
    rest, buckets = np.arange(units.shape[1]), []
    while rest.size:
        fits = _shares_rows(units[:, rest], budget, row_tokens)
        pairs, rest = rest[fits], rest[~fits]
        candidates = []
        for row in row_lengths(*units[:, pairs], budget, row_tokens):
            packed, starts = _pack(*units[:, pairs], row, seed)
            # The remainder of `batch_tokens` belongs to the last unit.
            lengths = (
                batch_tokens if side == budget else side * unit for side in row
            )
            candidates.append(
                Bucket.balanced(pairs[packed], starts, *lengths, batch_tokens)
            )
            tokens = source_lengths[pairs].sum() + target_lengths[pairs].sum()
            if 1 - tokens / candidates[-1].num_positions < _GOOD_PADDING:
                break
        buckets.append(min(candidates, key=lambda bucket: bucket.num_positions))
    return BatchPlan(buckets, seed)


def _shares_rows(lengths, batch_tokens, row_tokens):
    """Returns bool [pairs]: whether each goes into the next bucket."""
    # The longer side of the rows in which each pair fits.
    totals = lengths.sum(axis=1)
    needed = lengths[0] / (totals[0] / totals.max())
    np.maximum(needed, lengths[1] / (totals[1] / totals.max()), out=needed)
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
            rows, costs = _row_costs(group, batch_tokens, row_tokens)
            total += (costs * (1 + rows.max(axis=0) / _COSTLY_ROW)).min()
        return total * (1 - _MIN_SPLIT_SAVING * (limit == longest))

    return needed <= min(limits, key=cost)


def row_lengths(source_lengths, target_lengths, batch_tokens, row_tokens):
    """Returns a list of row lengths (S, T), the cheapest first.

    S and T have the ratio of all source ids to all target ids. The longer one
    is `row_tokens`; up to an eighth less if that fills batches better, and
    more if the longest sentence needs it.
    """
    both = np.stack([source_lengths, target_lengths])
    lengths, cost = _row_costs(both, batch_tokens, row_tokens)
    best = np.argsort(cost, kind="stable")[:_MAX_TRIES]
    return [tuple(row) for row in lengths.T[best].tolist()]


def _row_costs(both, batch_tokens, row_tokens):
    """Returns row lengths, int [2, n], and their costs, [n]."""
    totals, longest = both.sum(axis=1), both.max(axis=1)
    share = totals / totals.max()
    least = min(int(np.ceil((longest / share).max())), batch_tokens)
    row_tokens = max(min(row_tokens, batch_tokens), least)
    # In descending order, so that the longest is first among equals.
    longer = np.arange(row_tokens, max(row_tokens * 7 // 8, least) - 1, -1)
    lengths = np.rint(longer * share[:, None]).astype(int)
    lengths = np.maximum(lengths, longest[:, None])
    rows = np.ceil((totals[:, None] / lengths).max(axis=0) * _ROWS_FACTOR)
    cost = batching_cost(rows.astype(int), *lengths, batch_tokens)
    return lengths, cost


def _pack(source_lengths, target_lengths, row, seed):
    """Returns the pairs and starts of a Bucket with rows of (S, T)."""
    random = np.random.default_rng(seed)
    histogram = LengthHistogram(source_lengths, target_lengths)
    kinds = histogram.kinds
    draws = itertools.cycle(random.choice(kinds, _DRAWS).tolist())
    patterns = []
    while histogram.remaining:
        patterns.append(histogram.take_pattern(row, draws))
    # The slots of each kind are filled with its pairs, at random.
    slots = np.concatenate([np.tile(row, times) for row, times in patterns])
    counts = np.repeat(
        [len(row) for row, _ in patterns], [times for _, times in patterns]
    )
    shuffled = random.permutation(len(kinds))
    by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    pairs = np.empty_like(by_kind)
    pairs[np.argsort(slots, kind="stable")] = by_kind
    return pairs, np.concatenate([[0], np.cumsum(counts)])


class LengthHistogram:
    """Counts the unpacked pairs of each (source length, target length).

    Such a kind has the number source length x (longest target + 1) + target
    length. A pattern, the kinds of a row, is repeated as often as the counts
    allow, so that time grows with the number of kinds, not of pairs.
    """

    def __init__(self, source_lengths, target_lengths):
        self._longest = int(source_lengths.max()), int(target_lengths.max())
        self._width = self._longest[1] + 1
        self.kinds = source_lengths * self._width + target_lengths
        self.remaining = len(self.kinds)
        self._counts = np.bincount(
            self.kinds, minlength=(self._longest[0] + 1) * self._width
        )
        kinds = np.flatnonzero(self._counts)
        source, target = np.divmod(kinds, self._width)
        sizes = source / self._longest[0] + target / self._longest[1]
        order = np.argsort(-sizes, kind="stable")
        self._by_size = kinds[order], source[order], target[order]
        # Kind 0, no pair, is the partner of a pair that closes a row alone.
        self._counts[0] = self.remaining
        # Two pairs of usual lengths close a row with at most this much space.
        self._closable = 2 * source_lengths.mean(), 2 * target_lengths.mean()

    def take_pattern(self, space, draws):
        """Removes the pairs of a pattern; returns its kinds and row count.

        A row gets the largest remaining pair, so that none is left at the end,
        then pairs drawn at random, then the best fit.
        """
        row = []
        space = self._take(self._largest(space), row, space)
        space = self._take_drawn(draws, row, space)
        while kinds := self._best_fit(space) or self._largest(space):
            space = self._take(kinds, row, space)
        kinds, counts = np.unique(row, return_counts=True)
        repeats = int((self._counts[kinds] // counts).min())
        self._counts[kinds] -= repeats * counts
        self.remaining -= repeats * len(row)
        return np.array(row), repeats + 1

    def _take(self, kinds, row, space):
        """Moves pairs to a row; returns its remaining space."""
        source_space, target_space = space
        for kind in kinds:
            self._counts[kind] -= 1
            self.remaining -= 1
            row.append(kind)
            source, target = divmod(kind, self._width)
            source_space -= source
            target_space -= target
        return source_space, target_space

    def _take_drawn(self, draws, row, space):
        misses = 0
        while not self._is_closable(space) and misses < _MAX_MISSES:
            kind = next(draws)
            source, target = divmod(kind, self._width)
            if self._counts[kind] and source <= space[0] and target <= space[1]:
                space = self._take([kind], row, space)
            else:
                misses += 1
        return space

    def _is_closable(self, space):
        return space[0] <= self._closable[0] or space[1] <= self._closable[1]

    def _largest(self, space):
        """Returns a list of the largest kind that fits, or []."""
        kinds, source, target = self._by_size
        fits = (source <= space[0]) & (target <= space[1])
        fits &= self._counts[kinds] > 0
        first = int(fits.argmax())
        return [int(kinds[first])] if fits[first] else []

    def _best_fit(self, space):
        """Returns one or two kinds that leave the least space, or []."""
        if not self._is_closable(space):
            return []
        for rest in range(_MAX_REST + 1):
            for source_rest in range(rest + 1):
                kinds = self._exact_fit(
                    space[0] - source_rest, space[1] - rest + source_rest
                )
                if kinds:
                    return kinds
        return []

    def _exact_fit(self, source, target):
        """Returns the most frequent one or two kinds of this total, or []."""
        if source < 1 or target < 1:
            return []
        first_source = max(0, source - self._longest[0])
        first_target = max(0, target - self._longest[1])
        table = self._counts.reshape(-1, self._width)
        one = table[
            first_source : source - first_source + 1,
            first_target : target - first_target + 1,
        ]
        if not one.size:
            return []
        # Reversed on both axes, each kind meets the one that completes it.
        pairs = np.minimum(one, one[::-1, ::-1])
        if source % 2 == target % 2 == 0:
            pairs[source // 2 - first_source, target // 2 - first_target] //= 2
        row, column = divmod(int(pairs.argmax()), pairs.shape[1])
        if not pairs[row, column]:
            return []
        kind = (first_source + row) * self._width + first_target + column
        other = source * self._width + target - kind
        return [kind for kind in (kind, other) if kind]
