"""The batches of a plan, as fit is given them on any number of replicas."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers.wmt.slow_batches import (
    assert_equal,
    batch_of,
    pairs_of,
    slowly,
    some_texts,
)
from trainers.batches.batch_plan import BatchPlan, Bucket
from trainers.batches.input_pipeline import evaluation_data, training_data
from trainers.training.strategies import make_strategy

# How many pairs a row of a plan holds, at most.
KINDS = {"length": 1, "pack": 3}


def _plan(texts, pairs_a_row):
    """Three shapes; a batch of each is not full."""
    buckets = []
    for number, group in enumerate(np.array_split(np.arange(len(texts)), 3)):
        starts = np.append(np.arange(0, len(group), pairs_a_row), len(group))
        batch = batch_of(
            texts, np.arange(len(group)) // pairs_a_row, group, (0, number, 1)
        )
        shape = batch.shape._replace(rows=8)
        buckets.append(Bucket(group, starts, shape))
    plan = BatchPlan(buckets, seed=1)
    assert plan.batches_per_epoch >= 3
    return plan


TEXT = some_texts(50, seed=3)
PAIRS = pairs_of(TEXT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epochs", [0, 2])
def test_training_data_are_the_plans_batches_from_a_step_on(kind, epochs):
    plan = _plan(TEXT, KINDS[kind])
    # Across the end of an epoch: training data have no end.
    count = plan.batches_per_epoch
    step = epochs * count + 1
    data = training_data(make_strategy("one"), PAIRS, plan, step)
    batches = itertools.islice(data, count + 2)
    wanted = itertools.islice(plan.from_step(step), count + 2)
    for batch, planned in zip(batches, wanted, strict=True):
        assert_equal(batch, slowly(TEXT, planned, kind == "pack"))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_data_are_the_first_epoch_again_and_again(kind):
    plan = _plan(TEXT, KINDS[kind])
    data = evaluation_data(make_strategy("one"), PAIRS, plan)
    # Measured twice: each time from the beginning.
    for _ in range(2):
        batches = itertools.islice(data, 2 * plan.batches_per_epoch)
        wanted = 2 * list(plan.epoch(0))
        seen = []
        for batch, planned in zip(batches, wanted, strict=True):
            assert_equal(batch, slowly(TEXT, planned, kind == "pack"))
            seen += planned.pairs.tolist()
        assert sorted(seen) == sorted(2 * list(range(len(TEXT))))


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
    st.integers(0, 7),
    st.sampled_from([*KINDS]),
)
def test_any_number_of_replicas_gets_the_same_global_batch(sizes, step, kind):
    replicas, machines = sizes
    plan, local = _plan(TEXT, KINDS[kind]), replicas // machines
    strategy = _Strategy(replicas, machines)
    datasets = training_data(strategy, PAIRS, plan, step)
    streams = [dataset.as_numpy_iterator() for dataset in datasets]
    for wanted in itertools.islice(plan.from_step(step), 4):
        # A machine's stream holds its replicas' parts in turn.
        parts = [next(s) for s in streams for _ in range(local)]
        inputs, labels = slowly(TEXT, wanted, kind == "pack")
        for name, expected in (*inputs.items(), (None, labels)):
            joined = np.concatenate(
                [part[0][name] if name else part[1] for part in parts]
            )
            assert joined.tolist() == expected


def test_tf_data_tunes_nothing_and_knows_no_end():
    """Its tuning thread sleeps up to a minute, and whoever frees the iterator
    waits for it: after training, minutes in which nothing seems to happen.
    """
    strategy, plan = _Strategy(1, 1), _plan(TEXT, 1)
    for (data,) in (
        training_data(strategy, PAIRS, plan, 0),
        evaluation_data(strategy, PAIRS, plan),
    ):
        assert data.options().autotune.enabled is False
        assert int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
