"""Which pairs make up which batch of which epoch.

That is a pure function of the plan, its seed and the epoch, so any step can
be reached at once.
"""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

# Rows come in multiples of this, so that 2, 4 and 8 replicas share a batch
# evenly.
_ROW_MULTIPLE = 8
# A batch that is not full makes an update of fewer tokens. One batch more is
# taken to cost as much as this share of a full batch in padding.
_BATCH_COST = 0.1


class BatchShape(NamedTuple):
    """What a batch is padded to; one compilation each.

    Attributes:
        rows: B, a multiple of 8 where 8 or more may be.
        source_length: S, positions of a row's source side.
        target_length: T, positions of a row's target side.
    """

    rows: int
    source_length: int
    target_length: int

    @property
    def positions(self):
        """Positions of both sides together, padding counted."""
        return self.rows * (self.source_length + self.target_length)


@dataclasses.dataclass(frozen=True)
class Batch:
    """The pairs of one batch.

    Attributes:
        pairs: int64 [N], their numbers.
        rows: int64 [N], ascending: the row in which each pair stands, after
            those of the same row that come before it here. A row without a
            pair is padding.
        shape: BatchShape.
    """

    pairs: np.ndarray
    rows: np.ndarray
    shape: BatchShape


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Rows whose batches share one shape.

    Attributes:
        pairs: int64 [N], numbers of pairs, row by row.
        starts: int64 [R + 1]; row r holds pairs[starts[r]:starts[r + 1]].
        shape: BatchShape of every batch.
    """

    pairs: np.ndarray
    starts: np.ndarray
    shape: BatchShape

    @classmethod
    def balanced(
        cls, pairs, starts, source_length, target_length, batch_tokens
    ):
        """Makes a bucket of as few and as equal batches as may be.

        Args:
            pairs: as the attribute.
            starts: as the attribute.
            source_length: positions of a row's source side.
            target_length: positions of a row's target side.
            batch_tokens: positions a batch has on each side, at most.
        """
        lengths = int(source_length), int(target_length)
        shape = balanced_shape(len(starts) - 1, *lengths, batch_tokens)
        return cls(pairs, starts, shape._replace(rows=int(shape.rows)))

    @property
    def batches(self):
        """Number of batches that hold every row once."""
        return -(-(len(self.starts) - 1) // self.shape.rows)

    @property
    def positions(self):
        """Positions of both sides of all batches, padding counted."""
        return self.batches * self.shape.positions

    def batch(self, order, number):
        """Returns one batch of an epoch.

        Args:
            order: int64 [R], the rows in this epoch's order.
            number: of the batch, from 0.

        Returns:
            Batch. Rows that are missing to fill all batches are spread over
            them: two batches of a bucket differ by one row at most.
        """
        first, last = (
            len(order) * end // self.batches for end in (number, number + 1)
        )
        taken = order[first:last]
        starts = self.starts[taken]
        counts = self.starts[taken + 1] - starts
        rows = np.repeat(np.arange(len(taken)), counts)
        # How far each pair stands from the first of its row.
        within = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        return Batch(self.pairs[starts[rows] + within], rows, self.shape)


class BatchPlan:
    """The batches of every epoch.

    Attributes:
        buckets: tuple of Bucket; together they hold every pair once.
        seed: of the order, at least 0.
        batches_per_epoch: number of batches that hold every pair once.
    """

    def __init__(self, buckets, seed):
        self.buckets = tuple(buckets)
        self.seed = seed
        self.batches_per_epoch = sum(bucket.batches for bucket in self.buckets)

    @property
    def shapes(self):
        """The shapes of the batches, in the order of the buckets."""
        return tuple(bucket.shape for bucket in self.buckets)

    @property
    def positions(self):
        """Positions of both sides in one epoch, padding counted."""
        return sum(bucket.positions for bucket in self.buckets)

    def epoch(self, number):
        """Returns the batches of one epoch, from 0, in their order."""
        return _Epoch(self, number)

    def from_step(self, step):
        """Yields batches without end, beginning with that of `step`.

        Args:
            step: number of batches already used, from 0.
        """
        first, skip = divmod(step, self.batches_per_epoch)
        for number in itertools.count(first):
            batches = self.epoch(number)
            for index in range(skip, len(batches)):
                yield batches[index]
            skip = 0


class _Epoch:
    """A sequence of one epoch's batches, each made when it is asked for.

    Args:
        plan: BatchPlan.
        number: of the epoch, from 0.
    """

    def __init__(self, plan, number):
        self._buckets = plan.buckets
        counts = [bucket.batches for bucket in plan.buckets]
        bucket_of = np.repeat(np.arange(len(counts)), counts)
        batch_of = np.concatenate([np.arange(count) for count in counts])
        order = np.random.default_rng([plan.seed, number, 0]).permutation(
            len(bucket_of)
        )
        self._bucket_of, self._batch_of = bucket_of[order], batch_of[order]
        self._orders = [
            np.random.default_rng([plan.seed, number, index]).permutation(
                len(bucket.starts) - 1
            )
            for index, bucket in enumerate(plan.buckets, start=1)
        ]

    def __len__(self):
        return len(self._bucket_of)

    def __getitem__(self, index):
        bucket = self._bucket_of[index]
        return self._buckets[bucket].batch(
            self._orders[bucket], self._batch_of[index]
        )


def max_rows(source_length, target_length, batch_tokens):
    """Returns how many rows a budget of positions allows.

    Args:
        source_length: int or int array.
        target_length: the same.
        batch_tokens: positions a batch has on each side, at most.

    Returns:
        A multiple of 8, or where the budget is too small for that, 1 to 7.
        A row that is over the budget by itself counts as one.
    """
    rows = batch_tokens // np.maximum(source_length, target_length)
    few = rows < _ROW_MULTIPLE
    return np.where(few, np.maximum(rows, 1), rows - rows % _ROW_MULTIPLE)


def balanced_rows(rows, most):
    """Returns the rows a batch has when all batches are about equally full.

    Args:
        rows: int or int array, rows there are; at least 1.
        most: rows a batch may have, a multiple of 8 or less than 8.

    Returns:
        The least number of that kind that makes no more batches than `most`
        does.
    """
    batches = -(-rows // most)
    multiple = np.where(most < _ROW_MULTIPLE, 1, _ROW_MULTIPLE)
    return -(-rows // (batches * multiple)) * multiple


def balanced_shape(rows, source_length, target_length, batch_tokens):
    """Returns the shape of the fewest batches that hold rows, equally full.

    Args:
        rows: int or int array, rows there are; at least 1.
        source_length: the same, positions of a row's source side.
        target_length: the same, positions of a row's target side.
        batch_tokens: positions a batch has on each side, at most.

    Returns:
        BatchShape, of arrays where arguments are arrays.
    """
    most = max_rows(source_length, target_length, batch_tokens)
    return BatchShape(balanced_rows(rows, most), source_length, target_length)


def batching_cost(rows, source_length, target_length, batch_tokens):
    """Returns the positions of the batches, and a price for each batch.

    Args:
        rows: as for `balanced_shape`.
        source_length: the same.
        target_length: the same.
        batch_tokens: the same.

    Returns:
        float or float64 array, in positions of both sides.
    """
    shape = balanced_shape(rows, source_length, target_length, batch_tokens)
    price = _BATCH_COST * 2 * batch_tokens
    return -(-rows // shape.rows) * (shape.positions + price)


def padding_share(plan, source_lengths, target_lengths):
    """Returns which share of an epoch's positions is padding.

    Args:
        plan: BatchPlan.
        source_lengths: int [pairs].
        target_lengths: int [pairs].

    Returns:
        float from 0 to 1, of both sides together; rows without a pair count.
    """
    real = int(source_lengths.sum()) + int(target_lengths.sum())
    return 1 - real / plan.positions
