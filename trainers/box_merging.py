"""Merges boxes of lengths into few buckets that make little padding."""

import numpy as np

from trainers.length_boxes import split_boxes, strip_boxes

# Sweeps over all boxes, in case they never come to rest.
_SWEEPS = 8
# Into how many parts the buckets are cut to be merged anew.
_PARTS = (2, 3, 4, 2, 3, 4)
# Free shapes: as few as keep to this share of padding, which may change a
# little when boxes move; but no more of them than one likes to compile.
_FREE_PADDING = 0.029
_FREE_SHAPES = 128


def merge_boxes(boxes, batch_tokens, shapes, real):
    """Returns buckets of boxes, of the least cost that was found.

    The boxes that cost least to merge are merged, again and again; another
    beginning are the best buckets in the order of length. In each, a box may
    then move to another bucket. The best buckets are cut up and merged anew,
    a few times, where that costs less. So they are never worse than buckets
    in the order of length.

    Args:
        boxes: Boxes [n].
        batch_tokens: positions a batch has on each side, at most.
        shapes: how many buckets there may be; 0 takes as few as keep padding
            at about 3 %, at most 128.
        real: positions of both sides that are no padding.

    Returns:
        int64 [n], the bucket of each box, from 0 without a gap.
    """

    def found(parts_of):
        merging = _Merging(boxes.grouped(parts_of), batch_tokens)
        bucket_of = merging.run(shapes, real)[parts_of]
        bucket_of = _moved(boxes, bucket_of, batch_tokens)
        cost = boxes.grouped(bucket_of).cost(batch_tokens).sum()
        # Free shapes: fewer are better, and then what costs less.
        return max(shapes, bucket_of.max() + 1), cost, bucket_of

    best = found(np.arange(len(boxes.pairs)))
    if shapes:
        best = min(
            best, found(strip_boxes(boxes, shapes, batch_tokens)), key=_rank
        )
    for parts in _PARTS:
        best = min(best, found(_cut_up(boxes, best[-1], parts)), key=_rank)
    return best[-1]


def _rank(found):
    *rank, _ = found
    return rank


class _Merging:
    """Buckets that are merged two at a time."""

    def __init__(self, buckets, batch_tokens):
        self._buckets = buckets
        self._batch_tokens = batch_tokens
        self._cost = buckets.cost(batch_tokens)
        self._positions = buckets.positions(batch_tokens)
        self._bucket_of = np.arange(len(self._cost))
        self._count = len(self._cost)
        # Row i, column j: what joining i and j costs. A bucket that was
        # joined to another costs without end.
        self._growth = np.stack([self._joining(i) for i in self._bucket_of])
        self._nearest = self._growth.argmin(axis=1)
        self._least = self._growth.min(axis=1)

    def run(self, shapes, real):
        """Merges while that pays or must be; returns the bucket of each."""
        while self._count > 1:
            one = self._least.argmin()
            other = self._nearest[one]
            if self._least[one] >= 0 and self._enough(one, other, shapes, real):
                break
            self._merge(one, other)
        return np.unique(self._bucket_of, return_inverse=True)[1]

    def _enough(self, one, other, shapes, real):
        if shapes:
            return self._count <= shapes
        box = self._buckets.at(one).joined(self._buckets.at(other))
        positions = (
            self._positions.sum()
            - self._positions[[one, other]].sum()
            + box.positions(self._batch_tokens)
        )
        return (
            self._count <= _FREE_SHAPES
            and positions * (1 - _FREE_PADDING) > real
        )

    def _merge(self, one, other):
        box = self._buckets.at(one).joined(self._buckets.at(other))
        self._buckets.put(one, box)
        self._cost[one] = box.cost(self._batch_tokens)
        self._cost[other] = -np.inf
        self._positions[one] = box.positions(self._batch_tokens)
        self._positions[other] = 0
        self._bucket_of[self._bucket_of == other] = one
        self._count -= 1
        self._update(one, other)

    def _update(self, one, other):
        row = self._joining(one)
        self._growth[one] = self._growth[:, one] = row
        self._growth[other] = self._growth[:, other] = np.inf
        nearer = row < self._least
        self._nearest[nearer] = one
        self._least[nearer] = row[nearer]
        stale = np.isin(self._nearest, [one, other]) & ~nearer
        stale[[one, other]] = True
        self._nearest[stale] = self._growth[stale].argmin(axis=1)
        self._least[stale] = self._growth[stale].min(axis=1)

    def _joining(self, one):
        """Returns what joining one bucket to each costs, float64 [n]."""
        joined = self._buckets.joined(self._buckets.at(one))
        growth = joined.cost(self._batch_tokens)
        growth -= self._cost + self._cost[one]
        growth[one] = np.inf
        return growth


def _moved(boxes, bucket_of, batch_tokens):
    """Moves boxes to where they cost less, while any does."""
    bucket_of = bucket_of.copy()
    buckets = boxes.grouped(bucket_of)
    cost = buckets.cost(batch_tokens)
    for _ in range(_SWEEPS):
        before = bucket_of.copy()
        for number, old in enumerate(before):
            mates = bucket_of == old
            mates[number] = False
            if not mates.any():
                continue
            box = boxes.at(number)
            rest = boxes.at(mates).grouped(np.zeros(mates.sum(), int)).at(0)
            growth = buckets.joined(box).cost(batch_tokens) - cost
            growth[old] = cost[old] - rest.cost(batch_tokens)
            new = growth.argmin()
            if growth[new] < growth[old]:
                bucket_of[number] = new
                buckets.put(old, rest)
                buckets.put(new, buckets.at(new).joined(box))
                cost[[old, new]] = buckets.at([old, new]).cost(batch_tokens)
        if (bucket_of == before).all():
            break
    return bucket_of


def _cut_up(boxes, bucket_of, parts):
    """Returns the part of each box when every bucket is cut into parts."""
    part_of = np.empty_like(bucket_of)
    count = 0
    for bucket in range(bucket_of.max() + 1):
        members = np.flatnonzero(bucket_of == bucket)
        part_of[members] = count + split_boxes(boxes.at(members), parts)
        count = part_of[members].max() + 1
    return part_of
