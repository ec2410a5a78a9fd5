"""Batches of few shapes whose rows hold several sentence pairs each."""

import itertools

import numpy as np

from trainers.batches.batch_plan import BatchPlan, Bucket, batching_cost

# Rows that packing makes, for one that is needed; now and then it is one
# more, and that makes a batch more. So a few lengths of rows are tried until
# this share of padding is kept.
_ROWS_MADE = 1.004
_TRIES = 4
_GOOD = 0.01
# Pairs drawn once to fill rows with at random, over and over.
_DRAWS = 100_000
# So many draws that do not fit end the drawing for a row.
_MISSES = 20
# Two pairs close a row where they leave at most this many positions, both
# sides together.
_LEFT_OPEN = 6
# Mean length, in positions, from which sentences count as long.
_LONG = 64
# The longest pairs have rows of their own where that saves more than this
# share, for an update of them alone is one of few pairs.
_WORTH_SPLITTING = 0.05
# Positions of a row at which attention costs as much as all the rest.
_COSTLY_ROW = 1024


def plan_packed(source_lengths, target_lengths, batch_tokens, row_tokens, seed):
    """Packs pairs into rows, once; the rows are shuffled each epoch.

    Args:
        source_lengths: int [pairs], at least 1 each, at most `batch_tokens`.
        target_lengths: the same.
        batch_tokens: positions a batch has on each side, at most.
        row_tokens: positions of a row's longer side, see `row_lengths`.
        seed: of the packing and of the order, at least 0.

    Returns:
        BatchPlan of one bucket, and of one more for each group of pairs that
        are so much longer on a side that the rows of all would be longer.
    """
    mean = max(source_lengths.mean(), target_lengths.mean())
    # Where sentences are long, they are packed in units of several positions:
    # few kinds of pairs are left to try, and little is lost.
    unit = min(1 + int(mean) // _LONG, batch_tokens)
    # The rest of an incomplete last unit belongs to the one before.
    budget, row_tokens = batch_tokens // unit, max(row_tokens // unit, 1)
    units = np.stack(
        [
            np.minimum(-(-side.astype(np.int64) // unit), budget)
            for side in (source_lengths, target_lengths)
        ]
    )
    rest, buckets = np.arange(units.shape[1]), []
    while rest.size:
        fits = _fitting(units[:, rest], budget, row_tokens)
        pairs, rest = rest[fits], rest[~fits]
        found = []
        for row in row_lengths(*units[:, pairs], budget, row_tokens):
            places, starts = _packed(*units[:, pairs], row, seed)
            lengths = (
                batch_tokens if side == budget else side * unit for side in row
            )
            found.append(
                Bucket.balanced(pairs[places], starts, *lengths, batch_tokens)
            )
            real = source_lengths[pairs].sum() + target_lengths[pairs].sum()
            if 1 - real / found[-1].positions < _GOOD:
                break
        buckets.append(min(found, key=lambda bucket: bucket.positions))
    return BatchPlan(buckets, seed)


def _fitting(lengths, batch_tokens, row_tokens):
    """Returns which pairs share the rows of a bucket, bool [pairs]."""
    # The longer side of the rows that each pair needs.
    totals = lengths.sum(axis=1)
    needed = lengths[0] / (totals[0] / totals.max())
    np.maximum(needed, lengths[1] / (totals[1] / totals.max()), out=needed)
    most = min(needed.max(), batch_tokens)
    limits = [most]
    limit = row_tokens
    while limit < most:
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
        return total * (1 - _WORTH_SPLITTING * (limit == most))

    return needed <= min(limits, key=cost)


def row_lengths(source_lengths, target_lengths, batch_tokens, row_tokens):
    """Returns lengths of a row's sides, of which both fill together.

    Args:
        source_lengths: int [pairs].
        target_lengths: int [pairs].
        batch_tokens: positions a batch has on each side, at most.
        row_tokens: the longer side, at most; up to an eighth less where
            that makes fuller batches, and more where the longest sentence
            of a side would not fit.

    Returns:
        List of (S, T), in the ratio of all source ids to all target ids to
        within rounding; what promises least cost comes first.
    """
    both = np.stack([source_lengths, target_lengths])
    lengths, cost = _row_costs(both, batch_tokens, row_tokens)
    best = np.argsort(cost, kind="stable")[:_TRIES]
    return [tuple(row) for row in lengths.T[best].tolist()]


def _row_costs(both, batch_tokens, row_tokens):
    """Returns lengths of rows, int [2, n], and what they cost, [n]."""
    totals, longest = both.sum(axis=1), both.max(axis=1)
    share = totals / totals.max()
    least = min(int(np.ceil((longest / share).max())), batch_tokens)
    row_tokens = max(min(row_tokens, batch_tokens), least)
    # The longest first, which is taken among equals.
    longer = np.arange(row_tokens, max(row_tokens * 7 // 8, least) - 1, -1)
    lengths = np.rint(longer * share[:, None]).astype(int)
    lengths = np.maximum(lengths, longest[:, None])
    rows = np.ceil((totals[:, None] / lengths).max(axis=0) * _ROWS_MADE)
    cost = batching_cost(rows.astype(int), *lengths, batch_tokens)
    return lengths, cost


def _packed(source_lengths, target_lengths, row, seed):
    """Returns the pairs and starts of a Bucket with rows of (S, T)."""
    random = np.random.default_rng(seed)
    stock = _Stock(source_lengths, target_lengths)
    draws = itertools.cycle(random.choice(stock.kinds, _DRAWS).tolist())
    patterns = []
    while stock.left:
        patterns.append(stock.take_pattern(row, draws))
    return _rows(patterns, stock.kinds, random)


class _Stock:
    """How many pairs of each kind, that is of each two lengths, are left.

    Rows are made by patterns, lists of kinds, and a pattern is used as often
    as the stock allows. So each uses up a kind, and the work grows with the
    kinds and not with the pairs.

    Attributes:
        kinds: int64 [pairs], the kind of each pair: its source length x
            (the longest target + 1) + its target length.
        left: pairs left.
    """

    def __init__(self, source_lengths, target_lengths):
        self._longest = int(source_lengths.max()), int(target_lengths.max())
        self._width = self._longest[1] + 1
        self.kinds = source_lengths * self._width + target_lengths
        self.left = len(self.kinds)
        self._counts = np.bincount(
            self.kinds, minlength=(self._longest[0] + 1) * self._width
        )
        self._by_size = self._sorted_kinds()
        # Kind 0 is no pair: it stands beside one that closes a row alone.
        self._counts[0] = self.left
        # Two pairs of usual lengths close a row that is open no further.
        self._near = 2 * source_lengths.mean(), 2 * target_lengths.mean()

    def _sorted_kinds(self):
        """Returns the kinds and their lengths, the largest first."""
        kinds = np.flatnonzero(self._counts)
        source, target = np.divmod(kinds, self._width)
        sizes = source / self._longest[0] + target / self._longest[1]
        order = np.argsort(-sizes, kind="stable")
        return kinds[order], source[order], target[order]

    def take_pattern(self, room, draws):
        """Takes the pairs of some rows that are filled alike.

        The largest pair left comes first, so that none is left over to the
        end; then pairs drawn at random; then those that fit best.

        Args:
            room: (S, T) of a row.
            draws: iterator without end of kinds.

        Returns:
            (int64 [n], kinds of a row's pairs; int, number of rows).
        """
        row = []
        room = self._take(self._largest(room), row, room)
        room = self._take_drawn(draws, row, room)
        while kinds := self._closing(room) or self._largest(room):
            room = self._take(kinds, row, room)
        kinds, counts = np.unique(row, return_counts=True)
        more = int((self._counts[kinds] // counts).min())
        self._counts[kinds] -= more * counts
        self.left -= more * len(row)
        return np.array(row), more + 1

    def _take(self, kinds, row, room):
        """Moves pairs from the stock to a row; returns what stays open."""
        open_source, open_target = room
        for kind in kinds:
            self._counts[kind] -= 1
            self.left -= 1
            row.append(kind)
            source, target = divmod(kind, self._width)
            open_source -= source
            open_target -= target
        return open_source, open_target

    def _take_drawn(self, draws, row, room):
        misses = 0
        while self._is_far(room) and misses < _MISSES:
            kind = next(draws)
            source, target = divmod(kind, self._width)
            if self._counts[kind] and source <= room[0] and target <= room[1]:
                room = self._take([kind], row, room)
            else:
                misses += 1
        return room

    def _is_far(self, room):
        return room[0] > self._near[0] and room[1] > self._near[1]

    def _largest(self, room):
        """Returns a list of the largest kind that fits, or of none."""
        kinds, source, target = self._by_size
        fits = (source <= room[0]) & (target <= room[1])
        fits &= self._counts[kinds] > 0
        first = int(fits.argmax())
        return [int(kinds[first])] if fits[first] else []

    def _closing(self, room):
        """Returns one or two kinds that leave least open, or none.

        Among those that leave the same, of which there are most.
        """
        if self._is_far(room):
            return []
        for left in range(_LEFT_OPEN + 1):
            for left_source in range(left + 1):
                kinds = self._filling(
                    room[0] - left_source, room[1] - left + left_source
                )
                if kinds:
                    return kinds
        return []

    def _filling(self, source, target):
        """Returns one or two kinds of just these lengths, or none."""
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
        # Turned round, each stands where what is missing to it stood.
        pairs = np.minimum(one, one[::-1, ::-1])
        if source % 2 == target % 2 == 0:
            pairs[source // 2 - first_source, target // 2 - first_target] //= 2
        row, column = divmod(int(pairs.argmax()), pairs.shape[1])
        if not pairs[row, column]:
            return []
        kind = (first_source + row) * self._width + first_target + column
        other = source * self._width + target - kind
        return [kind for kind in (kind, other) if kind]


def _rows(patterns, kinds, random):
    """Gives the places in all rows to pairs of their kinds, at random.

    Args:
        patterns: list of (kinds of a row, number of rows).
        kinds: int64 [pairs].
        random: numpy Generator.

    Returns:
        The pairs and starts of a Bucket.
    """
    wanted = np.concatenate([np.tile(row, times) for row, times in patterns])
    counts = np.repeat(
        [len(row) for row, _ in patterns], [times for _, times in patterns]
    )
    shuffled = random.permutation(len(kinds))
    by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    pairs = np.empty_like(by_kind)
    pairs[np.argsort(wanted, kind="stable")] = by_kind
    return pairs, np.concatenate([[0], np.cumsum(counts)])
