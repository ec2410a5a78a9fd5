"""Plans batches and collates them into arrays.

`plan_batches` and `plan_groups` are the entry points: a plan depends only on
lengths, options and seed, a batch only on plan and step. Lengths and plan take
up to 100 bytes of memory per pair, so a large corpus is divided into groups of
shards, and one group at a time is in memory. Does not import other subpackages.
"""

import contextlib
import dataclasses
import itertools
import typing
from collections.abc import Callable, Iterator

import numpy as np

from keras_transformer.config import TransformerConfig
from trainers.batches.batch_plan import BatchPlan
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed
from trainers.batches.token_pairs import Arrays, TokenPairs, make_batch

BATCHINGS = ("length", "pack")


def plan_batches(
    pairs: TokenPairs, config: TransformerConfig, options: typing.Any
) -> "PlannedBatches":
    """Returns the PlannedBatches of TokenPairs for TrainingOptions."""
    source, target = pairs.source_lengths, pairs.target_lengths
    tokens, seed = config.batch_tokens, options.seed
    if options.batching == "pack":
        plan = plan_packed(source, target, tokens, options.row_tokens, seed)
    else:
        plan = plan_by_length(source, target, tokens, options.shapes, seed)
    return PlannedBatches(pairs, plan)


def plan_groups(
    groups: "PairGroups", config: TransformerConfig, options: typing.Any
) -> "GroupedBatches":
    """Returns the GroupedBatches of PairGroups for TrainingOptions."""
    return GroupedBatches(
        groups,
        lambda pairs: plan_batches(pairs, config, options),
        options.batching == "pack",
        config.batch_tokens,
        options.seed,
    )


class PlannedBatches(BatchPlan):
    """A BatchPlan of TokenPairs that yields arrays, see `make_batch`."""

    def __init__(self, pairs: TokenPairs, plan: BatchPlan):
        super().__init__(plan.buckets, plan.seed, plan.is_packed)
        self._pairs = pairs

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Arrays]:
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

    def __init__(
        self,
        groups: PairGroups,
        plan: Callable[[TokenPairs], PlannedBatches],
        is_packed: bool,
        batch_tokens: int,
        seed: int,
    ):
        self._loaders = groups.loaders
        sizes = np.array(groups.num_tokens, np.int64)
        self._num_batches = np.maximum(sizes // batch_tokens, 1).tolist()
        self._plan, self._seed = plan, seed
        self.is_packed = is_packed
        self._error: Exception | None = None

    def from_step(self, step: int) -> Iterator[Arrays]:
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
    def report_error(self) -> Iterator[None]:
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
