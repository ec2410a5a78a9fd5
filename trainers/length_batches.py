"""Batches by approximate length (section 5.1), in few shapes.

Which pairs make up which batch of which epoch is a pure function of the
lengths, the seed and the epoch, so any step can be reached at once.
"""

import dataclasses

import numpy as np

# Rows come in multiples of this, so that 2, 4 and 8 replicas share a batch
# evenly.
_ROW_MULTIPLE = 8


@dataclasses.dataclass(frozen=True)
class LengthBatches:
    """The plan of every epoch.

    Attributes:
        buckets: the pairs of each bucket, int64 arrays of their numbers.
        lengths: padded length of each bucket's rows.
        rows: rows of each bucket's batches.
        seed: of the order.
    """

    buckets: tuple[np.ndarray, ...]
    lengths: tuple[int, ...]
    rows: tuple[int, ...]
    seed: int

    @property
    def batches_per_epoch(self):
        """Number of batches that hold every pair once."""
        return sum(self._counts())

    def _counts(self):
        return [
            -(-len(pairs) // rows)
            for pairs, rows in zip(self.buckets, self.rows)
        ]

    def epoch(self, number):
        """Yields the batches of one epoch in their order.

        Each is a pair of int64 [rows], the numbers of its pairs with -1 for
        rows of padding, and the length its rows are padded to.
        """
        counts = self._counts()
        which = np.repeat(np.arange(len(counts)), counts)
        np.random.default_rng([self.seed, number, 0]).shuffle(which)
        orders = [self._order(number, bucket) for bucket in range(len(counts))]
        taken = [0] * len(counts)
        for bucket in which:
            start = taken[bucket]
            taken[bucket] = start + self.rows[bucket]
            yield (
                orders[bucket][start : taken[bucket]],
                self.lengths[bucket],
            )

    def _order(self, epoch, bucket):
        pairs, rows = self.buckets[bucket], self.rows[bucket]
        random = np.random.default_rng([self.seed, epoch, bucket + 1])
        missing = -len(pairs) % rows
        return np.append(random.permutation(pairs), np.full(missing, -1))

    def from_step(self, step):
        """Yields batches without end, beginning with that of `step`.

        Args:
            step: number of batches already used, from 0.
        """
        epoch, skip = divmod(step, self.batches_per_epoch)
        while True:
            for number, batch in enumerate(self.epoch(epoch)):
                if number >= skip:
                    yield batch
            epoch, skip = epoch + 1, 0


def plan_batches(lengths, batch_tokens, shapes, seed):
    """Sorts pairs into buckets of similar length.

    Args:
        lengths: int64 [pairs], the longer side of each pair.
        batch_tokens: positions a batch has on each side, at most; a batch
            has at least 8 rows all the same.
        shapes: how many padded lengths there may be.
        seed: of the order in which batches come.

    Returns:
        LengthBatches.
    """
    edges = bucket_edges(lengths, shapes)
    bucket_of = np.searchsorted(edges, lengths)
    buckets, kept, rows = [], [], []
    for number, edge in enumerate(edges):
        pairs = np.flatnonzero(bucket_of == number)
        if len(pairs):
            buckets.append(pairs)
            kept.append(edge)
            rows.append(rows_for(edge, batch_tokens))
    return LengthBatches(tuple(buckets), tuple(kept), tuple(rows), seed)


def rows_for(length, batch_tokens):
    """Returns how many rows of a length a budget of positions allows."""
    rows = batch_tokens // length // _ROW_MULTIPLE * _ROW_MULTIPLE
    return max(rows, _ROW_MULTIPLE)


def bucket_edges(lengths, shapes):
    """Returns the padded lengths that make the least padding.

    Args:
        lengths: int64 [pairs].
        shapes: how many padded lengths there may be.

    Returns:
        Ascending list of at most `shapes` lengths; the last is the longest.
    """
    counts = np.bincount(lengths)
    present = np.flatnonzero(counts)
    # cost[j]: positions when all pairs up to present[j] are padded with the
    # edges so far; cut[s][j]: where the last of s edges begins.
    pairs = np.cumsum(counts[present])
    cost, cuts = present * pairs, []
    for _ in range(min(shapes, len(present)) - 1):
        # Row i: edges end at present[i], one more covers i + 1 up to j.
        added = present[None, :] * (pairs[None, :] - pairs[:, None])
        total = np.where(
            np.arange(len(present))[:, None] < np.arange(len(present)),
            cost[:, None] + added,
            np.iinfo(np.int64).max,
        )
        cuts.append(total.argmin(axis=0))
        cost = np.minimum(cost, total.min(axis=0))
    edges, last = [present[-1]], len(present) - 1
    for cut in reversed(cuts):
        last = cut[last]
        edges.append(present[last])
    return [int(edge) for edge in sorted(set(edges))]
