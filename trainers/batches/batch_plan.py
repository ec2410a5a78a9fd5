"""Assigns sentence pairs to the batches of each epoch.

Batches depend only on plan, seed and epoch, so a training resumes at any step
without reading earlier batches.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# So that 2, 4 and 8 replicas share a batch evenly.
_ROW_MULTIPLE = 8
# Cost of one more batch, as a fraction of a full batch's positions: partly
# filled batches make updates of fewer tokens.
_BATCH_COST = 0.1
# A number or an array of numbers.
NumberLike: TypeAlias = Any


class BatchShape(NamedTuple):
    """Padded shape (B, S, T) of a batch; each shape is compiled once."""

    rows: int
    source_length: int
    target_length: int

    @property
    def num_positions(self) -> int:
        """Number of source and target positions, with padding."""
        return self.rows * (self.source_length + self.target_length)


@dataclasses.dataclass(frozen=True)
class Batch:
    """The global batch of one update; replicas share its rows.

    `pair_indices` and `rows`, the row of each pair, are int64 [N], ascending by
    row. A row without a pair is padding.
    """

    pair_indices: np.ndarray
    rows: np.ndarray
    shape: BatchShape


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Rows whose batches have the same shape.

    Row r has the pairs pair_indices[starts[r]:starts[r + 1]]; `pair_indices` is
    int64 [N], `starts` int64 [R + 1].
    """

    pair_indices: np.ndarray
    starts: np.ndarray
    shape: BatchShape

    @classmethod
    def balanced(
        cls,
        pair_indices: np.ndarray,
        starts: np.ndarray,
        row_shape: Sequence[int],
        batch_tokens: int,
    ) -> "Bucket":
        """Returns a Bucket of the fewest batches, equally full."""
        rows, (source, target) = len(starts) - 1, row_shape
        shape = balanced_shape(rows, source, target, batch_tokens)
        return cls(pair_indices, starts, BatchShape(*map(int, shape)))

    @property
    def num_rows(self) -> int:
        """Number of rows in an epoch, without padding."""
        return len(self.starts) - 1

    @property
    def num_batches(self) -> int:
        """Number of batches in an epoch."""
        return -(-self.num_rows // self.shape.rows)

    @property
    def num_positions(self) -> int:
        """Number of positions in an epoch, with padding."""
        return self.num_batches * self.shape.num_positions

    def batch(self, row_order: np.ndarray, index: int) -> Batch:
        """Returns a Batch; `row_order`, int64 [R], permutes the rows."""
        # Batches of a bucket differ by one row at most.
        first = self.num_rows * index // self.num_batches
        last = self.num_rows * (index + 1) // self.num_batches
        row_indices = row_order[first:last]
        starts = self.starts[row_indices]
        counts = self.starts[row_indices + 1] - starts
        rows = np.repeat(np.arange(len(row_indices)), counts)
        index_in_row = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        pair_indices = self.pair_indices[starts[rows] + index_in_row]
        return Batch(pair_indices, rows, self.shape)


class BatchPlan:
    """The batches of every epoch, in an order seeded with `seed` >= 0.

    The Buckets together hold every pair once; `is_packed` tells whether a row
    may have several.
    """

    def __init__(
        self, buckets: Iterable[Bucket], seed: int, is_packed: bool = False
    ):
        self.buckets = tuple(buckets)
        self.seed = seed
        self.is_packed = is_packed
        self.batches_per_epoch = sum(each.num_batches for each in self.buckets)

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """Yields the batches of one epoch without the first `skip` ones."""

        def shuffle(stream, count):
            seeds = [self.seed, epoch, stream]
            return np.random.default_rng(seeds).permutation(count)

        batches = []
        for stream, bucket in enumerate(self.buckets, start=1):
            row_order = shuffle(stream, bucket.num_rows)
            indices = range(bucket.num_batches)
            batches += [(bucket, row_order, index) for index in indices]
        for position in shuffle(0, len(batches))[skip:]:
            bucket, row_order, index = batches[position]
            yield bucket.batch(row_order, index)

    def from_step(self, step: int) -> Iterator[Any]:
        """Yields batches endlessly, skipping the first `step` ones."""
        first, skip = divmod(step, self.batches_per_epoch)
        yield from self.epoch(first, skip)
        for epoch in itertools.count(first + 1):
            yield from self.epoch(epoch)


def max_rows(
    source_length: NumberLike, target_length: NumberLike, batch_tokens: int
) -> np.ndarray:
    """Returns how many rows fit into a batch: a multiple of 8, or 1 to 7.

    `batch_tokens` is the maximum number of positions per side. Arguments here
    and below may be arrays.
    """
    rows = batch_tokens // np.maximum(source_length, target_length)
    multiple = rows - rows % _ROW_MULTIPLE
    return np.where(multiple, multiple, np.maximum(rows, 1))


def balanced_shape(
    rows: NumberLike,
    source_length: NumberLike,
    target_length: NumberLike,
    batch_tokens: int,
) -> BatchShape:
    """Returns the BatchShape of the fewest batches, equally full."""
    limit = max_rows(source_length, target_length, batch_tokens)
    batches = -(-rows // limit)
    multiple = np.where(limit < _ROW_MULTIPLE, 1, _ROW_MULTIPLE)
    rows = -(-rows // (batches * multiple)) * multiple
    return BatchShape(rows, source_length, target_length)


def batching_cost(
    rows: NumberLike,
    source_length: NumberLike,
    target_length: NumberLike,
    batch_tokens: int,
) -> NumberLike:
    """Returns the positions of all batches plus a cost for each batch."""
    shape = balanced_shape(rows, source_length, target_length, batch_tokens)
    num_batches = -(-rows // shape.rows)
    return num_batches * (shape.num_positions + _BATCH_COST * 2 * batch_tokens)
