"""Groups of pairs that are padded to one source and target length."""

import heapq
from typing import NamedTuple

import numpy as np

from trainers.batch_plan import balanced_rows, most_rows

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
