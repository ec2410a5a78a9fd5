"""Batches by approximate length (section 5.1), in few shapes."""

import heapq
from typing import NamedTuple

import numpy as np

from trainers.batches.plan import (
    BatchPlan,
    BatchShape,
    Bucket,
    balanced_rows,
    most_rows,
)

# A batch that is not full makes an update of fewer tokens. One batch more is
# taken to cost as much as this share of a full batch in padding.
_BATCH_COST = 0.1


class Boxes(NamedTuple):
    """Groups of pairs: rectangles in the plane of source and target length.

    Attributes:
        pairs: int64 [n], pairs in each.
        source: int64 [n], longest source of each.
        target: int64 [n], longest target of each.
    """

    pairs: np.ndarray
    source: np.ndarray
    target: np.ndarray

    def at(self, index):
        """Returns some of the boxes; one, as scalars, for an int."""
        return Boxes(*(values[index] for values in self))

    def put(self, index, box):
        """Writes a box of scalars over another."""
        for values, value in zip(self, box):
            values[index] = value

    def joined(self, other):
        """Returns each box together with one of other boxes."""
        return Boxes(
            self.pairs + other.pairs,
            np.maximum(self.source, other.source),
            np.maximum(self.target, other.target),
        )

    def grouped(self, group_of):
        """Returns the boxes that hold several of these each.

        Args:
            group_of: int [n], the group of each; all of 0 to the largest
                occur.
        """
        count = int(group_of.max()) + 1
        groups = Boxes(*np.zeros((3, count), np.int64))
        np.add.at(groups.pairs, group_of, self.pairs)
        np.maximum.at(groups.source, group_of, self.source)
        np.maximum.at(groups.target, group_of, self.target)
        return groups

    def positions(self, batch_tokens):
        """Returns the positions in all batches of each, padding counted.

        Args:
            batch_tokens: positions a batch has on each side, at most.

        Returns:
            int64, as the boxes.
        """
        batches, rows = self._batches(batch_tokens)
        return batches * rows * (self.source + self.target)

    def cost(self, batch_tokens):
        """Returns positions and what the number of batches costs beside.

        Args:
            batch_tokens: as for `positions`.

        Returns:
            float64, as the boxes.
        """
        batches, rows = self._batches(batch_tokens)
        return batches * (
            rows * (self.source + self.target) + _BATCH_COST * 2 * batch_tokens
        )

    def _batches(self, batch_tokens):
        most = most_rows(self.source, self.target, batch_tokens)
        return -(-self.pairs // most), balanced_rows(self.pairs, most)


def split_boxes(boxes, most):
    """Groups boxes by cutting the plane of lengths in two, again and again.

    The cut that saves most positions comes first, as in a k-d tree.

    Args:
        boxes: Boxes [n].
        most: how many groups there may be.

    Returns:
        int64 [n], the group of each, from 0 without a gap.
    """
    groups = [_with_cut(boxes, np.arange(len(boxes.pairs)))]
    while len(groups) < most and groups[0][0] < 0:
        _, _, along, cut, members = heapq.heappop(groups)
        left = along[members] <= cut
        heapq.heappush(groups, _with_cut(boxes, members[left]))
        heapq.heappush(groups, _with_cut(boxes, members[~left]))
    group_of = np.empty(len(boxes.pairs), np.int64)
    for number, (*_, members) in enumerate(groups):
        group_of[members] = number
    return group_of


def _with_cut(boxes, members):
    """Returns a heap's entry: the greatest saving first, no two alike."""
    some = boxes.at(members)
    by_source, source_cut = _best_cut(some.source, some.target, some.pairs)
    by_target, target_cut = _best_cut(some.target, some.source, some.pairs)
    if by_source >= by_target:
        return -by_source, int(members[0]), boxes.source, source_cut, members
    return -by_target, int(members[0]), boxes.target, target_cut, members


def _best_cut(along, across, pairs):
    """Returns the positions the best cut saves, and the last length before it.

    A saving of 0 stands for no cut.
    """
    order = np.argsort(along)
    along, across, pairs = along[order], across[order], pairs[order]
    before = np.cumsum(pairs)
    after = before[-1] - before
    lower = before * (along + np.maximum.accumulate(across))
    longest_after = np.maximum.accumulate(across[::-1])[::-1]
    upper = after[:-1] * (along[-1] + longest_after[1:])
    saved = lower[-1] - lower[:-1] - upper
    # Boxes of one length stay together.
    saved[along[:-1] == along[1:]] = 0
    if not saved.any():
        return 0, 0
    best = saved.argmax()
    return int(saved[best]), int(along[best])


def strip_boxes(boxes, most, batch_tokens):
    """Groups boxes that follow one another in the order of the longer side.

    Args:
        boxes: Boxes [n].
        most: how many groups there may be.
        batch_tokens: positions a batch has on each side, at most.

    Returns:
        int64 [n], the group of each, from 0 without a gap; no other groups
        in this order cost less.
    """
    longer = np.maximum(boxes.source, boxes.target)
    order = np.lexsort([boxes.source + boxes.target, longer])
    # Row i, column j: the cost of one group of boxes i to j.
    cost = np.full((len(order), len(order)), np.inf)
    for first in range(len(order)):
        pairs, source, target = boxes.at(order[first:])
        cost[first, first:] = Boxes(
            np.cumsum(pairs),
            np.maximum.accumulate(source),
            np.maximum.accumulate(target),
        ).cost(batch_tokens)
    # The least cost of boxes 0 to j, and where their last group begins.
    least, begins = cost[0], []
    for _ in range(most - 1):
        total = cost.copy()
        total[1:] += least[:-1, None]
        begins.append(total.argmin(axis=0))
        least = total.min(axis=0)
    is_first = np.zeros(len(order), np.int64)
    end = len(order) - 1
    for begin in reversed(begins):
        # Once it is 0 it stays 0: there were fewer groups.
        is_first[begin[end]] = begin[end] > 0
        end = max(begin[end] - 1, 0)
    group_of = np.empty_like(is_first)
    group_of[order] = np.cumsum(is_first)
    return group_of


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


# Boxes that are merged into buckets: several times as many as there may be
# buckets, and few enough to compare each with each.
_BOXES = 400


def plan_by_length(source_lengths, target_lengths, batch_tokens, shapes, seed):
    """Sorts pairs into buckets of similar source and target lengths.

    Args:
        source_lengths: int [pairs], at least 1 each.
        target_lengths: int [pairs], at least 1 each.
        batch_tokens: positions a batch has on each side, at most; a batch
            has at least 8 rows all the same.
        shapes: how many shapes batches may have; 0 takes as few as keep
            padding at about 3 %, at most 128.
        seed: of the order in which batches come, at least 0.

    Returns:
        BatchPlan of one pair a row.
    """
    cells, cell_of = _cells(source_lengths, target_lengths)
    box_of_cell = split_boxes(cells, _BOXES)
    boxes = _whole_batches_apart(cells.grouped(box_of_cell), batch_tokens)
    real = int(source_lengths.sum()) + int(target_lengths.sum())
    bucket_of_box = merge_boxes(boxes, batch_tokens, shapes, real)
    # Which pairs of a box make its whole batches is left to chance.
    order = np.random.default_rng(seed).permutation(len(cell_of))
    order = order[np.argsort(box_of_cell[cell_of[order]], kind="stable")]
    bucket_of = np.repeat(bucket_of_box, boxes.pairs)
    by_bucket = order[np.argsort(bucket_of, kind="stable")]
    ends = np.cumsum(np.bincount(bucket_of))[:-1]
    return BatchPlan(
        [
            _bucket(pairs, source_lengths, target_lengths, batch_tokens)
            for pairs in np.split(by_bucket, ends)
        ],
        seed,
    )


def _cells(source_lengths, target_lengths):
    """Returns Boxes of one length a side, and that of each pair."""
    width = int(target_lengths.max()) + 1
    cells, cell_of, counts = np.unique(
        source_lengths.astype(np.int64) * width + target_lengths,
        return_inverse=True,
        return_counts=True,
    )
    return Boxes(counts, *np.divmod(cells, width)), cell_of


def _whole_batches_apart(boxes, batch_tokens):
    """Cuts each box in two: whole batches, which want no company, and rest."""
    rest = boxes.pairs % most_rows(boxes.source, boxes.target, batch_tokens)
    pairs = np.stack([boxes.pairs - rest, rest], axis=1).ravel()
    halves = Boxes(
        pairs, np.repeat(boxes.source, 2), np.repeat(boxes.target, 2)
    )
    return halves.at(pairs > 0)


def _bucket(pairs, source_lengths, target_lengths, batch_tokens):
    source = int(source_lengths[pairs].max())
    target = int(target_lengths[pairs].max())
    rows = balanced_rows(len(pairs), most_rows(source, target, batch_tokens))
    shape = BatchShape(int(rows), source, target)
    return Bucket(pairs, np.arange(len(pairs) + 1), shape)
