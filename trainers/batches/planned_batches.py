"""Batches as arrays, of all pairs or of one group of shards after another.

Lengths and plan take up to 100 bytes of memory per pair. So a large corpus is
divided into groups, and one group at a time is in memory.
"""

import contextlib
import dataclasses
import itertools
import typing

import numpy as np

from trainers.batches.batch_plan import BatchPlan
from trainers.batches.token_pairs import TokenPairs, make_batch


class PlannedBatches(BatchPlan):
    """A BatchPlan of TokenPairs that yields arrays, see `make_batch`."""

    def __init__(self, pairs, plan):
        super().__init__(plan.buckets, plan.seed, plan.is_packed)
        self._pairs = pairs

    def epoch(self, epoch, skip=0):
        """Yields the batches of one epoch without the first `skip` ones."""
        for batch in super().epoch(epoch, skip):
            yield make_batch(self._pairs, batch, self.is_packed)


@dataclasses.dataclass(frozen=True)
class PairGroups:
    """Groups of sentence pairs: a function that loads each, and its size.

    `num_tokens` counts the tokens of the side that has more.
    """

    loaders: tuple[typing.Callable[[], TokenPairs], ...]
    num_tokens: tuple[int, ...]


class GroupedBatches:
    """Endless batches of PairGroups, with one at a time in memory.

    Every round visits each group, in an order seeded with `seed`, for about as
    many batches as an epoch of the group has. A visit continues where the last
    one ended, so that in each epoch of a group every pair occurs once, and the
    batch of a step depends on no earlier one. `plan` is a function of
    TokenPairs that returns PlannedBatches.
    """

    def __init__(self, groups, plan, is_packed, batch_tokens, seed):
        self._loaders = groups.loaders
        sizes = np.array(groups.num_tokens, np.int64)
        self._num_batches = np.maximum(sizes // batch_tokens, 1).tolist()
        self._plan, self._seed = plan, seed
        self.is_packed = is_packed
        self._error = None

    def from_step(self, step):
        """Yields batches endlessly, skipping the first `step` ones."""
        if len(self._loaders) == 1:
            yield from self._visit(0, step, None)
        first, skip = divmod(step, sum(self._num_batches))
        for number in itertools.count(first):
            random = np.random.default_rng([self._seed, number])
            for group in random.permutation(len(self._loaders)).tolist():
                count = self._num_batches[group]
                if skip < count:
                    start = number * count + skip
                    yield from self._visit(group, start, count - skip)
                skip = max(skip - count, 0)

    @contextlib.contextmanager
    def report_error(self):
        """Context that raises what loading a group raised."""
        try:
            yield
        except Exception as error:
            # tf.data loses the type of an error.
            if self._error is not None:
                raise self._error from error
            raise

    def _visit(self, group, step, count):
        try:
            batches = self._plan(self._loaders[group]())
        except Exception as error:
            self._error = error
            raise
        yield from itertools.islice(batches.from_step(step), count)
