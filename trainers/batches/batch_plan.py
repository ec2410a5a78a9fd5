"""Assigns sentence pairs to the batches of each epoch.

Batches depend only on plan, seed and epoch, so a training resumes at any step
without reading earlier batches.
"""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

# So that 2, 4 and 8 replicas share a batch evenly.
_ROW_MULTIPLE = 8
# Cost of one more batch, as a share of a full batch's positions: partly filled
# batches make updates of fewer tokens.
_BATCH_COST = 0.1


class BatchShape(NamedTuple):
    """Padded shape (B, S, T) of a batch; each shape is compiled once."""

    rows: int
    source_length: int
    target_length: int

    @property
    def num_positions(self):
        """Number of source and target positions, with padding."""
        return self.rows * (self.source_length + self.target_length)


@dataclasses.dataclass(frozen=True)
class Batch:
    """The global batch of one update; replicas share its rows.

    `pairs`, int64 [N], are indices of pairs, `rows`, int64 [N], their rows,
    ascending. A row without a pair is padding.
    """

    pairs: np.ndarray
    rows: np.ndarray
    shape: BatchShape


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Rows whose batches have the same shape.

    `pairs`, int64 [N], are indices of pairs, row by row; row r holds
    pairs[starts[r]:starts[r + 1]], `starts` being int64 [R + 1].
    """

    pairs: np.ndarray
    starts: np.ndarray
    shape: BatchShape

    @classmethod
    def balanced(
        cls, pairs, starts, source_length, target_length, batch_tokens
    ):
        """Returns a Bucket of the fewest batches, equally full."""
        lengths = int(source_length), int(target_length)
        shape = balanced_shape(len(starts) - 1, *lengths, batch_tokens)
        return cls(pairs, starts, shape._replace(rows=int(shape.rows)))

    @property
    def num_batches(self):
        """Number of batches in an epoch."""
        return -(-(len(self.starts) - 1) // self.shape.rows)

    @property
    def num_positions(self):
        """Number of positions in an epoch, with padding."""
        return self.num_batches * self.shape.num_positions

    def batch(self, order, number):
        """Returns a Batch of an epoch with this order of rows, int64 [R]."""
        # Batches of a bucket differ by one row at most.
        first, last = (
            len(order) * end // self.num_batches for end in (number, number + 1)
        )
        row_numbers = order[first:last]
        starts = self.starts[row_numbers]
        counts = self.starts[row_numbers + 1] - starts
        rows = np.repeat(np.arange(len(row_numbers)), counts)
        index_in_row = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        return Batch(self.pairs[starts[rows] + index_in_row], rows, self.shape)


class BatchPlan:
    """The batches of every epoch, in an order seeded with `seed` >= 0.

    The Buckets together hold every pair once.
    """

    def __init__(self, buckets, seed):
        self.buckets = tuple(buckets)
        self.seed = seed
        self.batches_per_epoch = sum(
            bucket.num_batches for bucket in self.buckets
        )

    def epoch(self, number, skip=0):
        """Yields the batches of one epoch without the first `skip` ones."""
        counts = [bucket.num_batches for bucket in self.buckets]
        bucket_of = np.repeat(np.arange(len(counts)), counts)
        batch_of = np.concatenate([np.arange(count) for count in counts])
        order = np.random.default_rng([self.seed, number, 0]).permutation(
            len(bucket_of)
        )
        row_orders = [
            np.random.default_rng([self.seed, number, index]).permutation(
                len(bucket.starts) - 1
            )
            for index, bucket in enumerate(self.buckets, start=1)
        ]
        for index in order[skip:]:
            bucket = bucket_of[index]
            yield self.buckets[bucket].batch(
                row_orders[bucket], batch_of[index]
            )

    def from_step(self, step):
        """Yields batches endlessly, skipping the first `step` ones."""
        first, skip = divmod(step, self.batches_per_epoch)
        yield from self.epoch(first, skip)
        for number in itertools.count(first + 1):
            yield from self.epoch(number)


def max_rows(source_length, target_length, batch_tokens):
    """Returns how many rows fit into a batch: a multiple of 8, or 1 to 7.

    `batch_tokens` is the maximum number of positions per side. Here and below,
    arguments may be arrays.
    """
    rows = batch_tokens // np.maximum(source_length, target_length)
    few = rows < _ROW_MULTIPLE
    return np.where(few, np.maximum(rows, 1), rows - rows % _ROW_MULTIPLE)


def balanced_shape(rows, source_length, target_length, batch_tokens):
    """Returns the BatchShape of the fewest batches, equally full."""
    limit = max_rows(source_length, target_length, batch_tokens)
    batches = -(-rows // limit)
    multiple = np.where(limit < _ROW_MULTIPLE, 1, _ROW_MULTIPLE)
    rows = -(-rows // (batches * multiple)) * multiple
    return BatchShape(rows, source_length, target_length)


def batching_cost(rows, source_length, target_length, batch_tokens):
    """Returns the positions of all batches plus a cost for each batch."""
    shape = balanced_shape(rows, source_length, target_length, batch_tokens)
    price = _BATCH_COST * 2 * batch_tokens
    return -(-rows // shape.rows) * (shape.num_positions + price)
