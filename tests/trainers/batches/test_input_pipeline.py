"""The batches of a plan, as fit gets them on any number of replicas."""

import itertools

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers.batches.batch_loop import (
    assert_equal,
    batch_of,
    pairs_of,
    reference_batch,
    some_texts,
)
from trainers.batches import PlannedBatches
from trainers.batches.batch_plan import BatchPlan, Bucket
from trainers.batches.input_pipeline import evaluation_data, training_data
from trainers.training.strategies import make_strategy

# Maximum number of pairs per row.
KINDS = {"length": 1, "pack": 3}
TEXT = some_texts(50, seed=3)
PAIRS = pairs_of(TEXT)


def _plan(pairs_per_row):
    """Three shapes; one batch of each is not full."""
    buckets = []
    for number, group in enumerate(np.array_split(np.arange(len(TEXT)), 3)):
        starts = np.append(np.arange(0, len(group), pairs_per_row), len(group))
        batch = batch_of(
            TEXT, np.arange(len(group)) // pairs_per_row, group, (0, number, 1)
        )
        buckets.append(Bucket(group, starts, batch.shape._replace(rows=8)))
    plan = BatchPlan(buckets, 1, is_packed=pairs_per_row > 1)
    assert plan.batches_per_epoch >= 3
    return plan


def test_evaluation_data_repeat_the_first_epoch():
    plan = _plan(KINDS["pack"])
    data = evaluation_data(make_strategy("one"), PlannedBatches(PAIRS, plan))
    # Each evaluation begins at the beginning.
    for _ in range(2):
        batches = itertools.islice(data, 2 * plan.batches_per_epoch)
        expected = 2 * list(plan.epoch(0))
        for batch, planned in zip(batches, expected, strict=True):
            assert_equal(batch, reference_batch(TEXT, planned, True))


class _Strategy:
    """Many replicas on several machines, as far as the data see."""

    def __init__(self, replicas, machines):
        self.num_replicas_in_sync = replicas
        self._machines = machines

    def distribute_datasets_from_function(self, make):
        return [
            make(
                tf.distribute.InputContext(
                    self._machines, number, self.num_replicas_in_sync
                )
            )
            for number in range(self._machines)
        ]


@settings(max_examples=12)
@given(
    st.sampled_from([(1, 1), (2, 1), (2, 2), (8, 2), (6, 3), (5, 1)]),
    # Some end an epoch.
    st.integers(0, 30),
    st.sampled_from([*KINDS]),
)
def test_any_number_of_replicas_gets_the_same_global_batch(sizes, step, kind):
    replicas, machines = sizes
    plan, local = _plan(KINDS[kind]), replicas // machines
    batches = PlannedBatches(PAIRS, plan)
    datasets = training_data(_Strategy(*sizes), batches, step)
    streams = [dataset.as_numpy_iterator() for dataset in datasets]
    for planned in itertools.islice(plan.from_step(step), 4):
        # A machine's stream holds the shards of its replicas in turn.
        shards = [next(s) for s in streams for _ in range(local)]
        inputs, labels = zip(*shards)
        joined = {
            name: np.concatenate([each[name] for each in inputs])
            for name in inputs[0]
        }
        expected = reference_batch(TEXT, planned, kind == "pack")
        assert_equal((joined, np.concatenate(labels)), expected)


def test_tf_data_tunes_nothing_and_is_endless():
    """Whoever frees an iterator waits up to a minute for its tuning thread."""
    strategy, batches = _Strategy(1, 1), PlannedBatches(PAIRS, _plan(1))
    for (data,) in (
        training_data(strategy, batches, 0),
        evaluation_data(strategy, batches),
    ):
        assert data.options().autotune.enabled is False
        assert int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
