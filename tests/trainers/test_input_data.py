import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.helpers import (
    END,
    made_up_pairs,
    plan_of,
    token_pairs,
)
from trainers.input_data import evaluation_data, make_batch, training_data

BEGIN = 2
SENTENCES = st.lists(
    st.lists(st.integers(4, 12), max_size=6).map(lambda ids: [*ids, END]),
    min_size=1,
    max_size=6,
)


def _naive(pairs, rows, length):
    """One row, one column at a time."""
    source = np.zeros((len(rows), length), np.int32)
    target = np.zeros((len(rows), length), np.int32)
    labels = np.zeros((len(rows), length), np.int32)
    for row, number in enumerate(rows):
        if number < 0:
            continue
        start = pairs.source_starts[number]
        for place in range(pairs.source_lengths[number]):
            source[row, place] = pairs.source[start + place]
        start = pairs.target_starts[number]
        for place in range(pairs.target_lengths[number]):
            labels[row, place] = pairs.target[start + place]
            target[row, place] = (
                pairs.target[start + place - 1] if place else BEGIN
            )
    return source, target, labels


def _assert_naive(batch, pairs, rows, length):
    inputs, labels = batch
    assert set(inputs) == {"source", "target"}
    expected = _naive(pairs, rows, length)
    for actual, wanted in zip(
        (inputs["source"], inputs["target"], labels), expected
    ):
        actual = np.asarray(actual)
        assert actual.dtype == np.int32
        assert actual.tolist() == wanted.tolist()


@given(SENTENCES, SENTENCES, st.integers(0, 3), st.data())
def test_a_batch_equals_the_naive_loop(sources, targets, room, data):
    count = min(len(sources), len(targets))
    pairs = token_pairs(sources[:count], targets[:count])
    longest = max(pairs.source_lengths.max(), pairs.target_lengths.max())
    rows = data.draw(st.lists(st.integers(-1, count - 1), min_size=1))
    rows, length = np.array(rows), int(longest) + room
    _assert_naive(make_batch(pairs, rows, length), pairs, rows, length)


def test_a_batch_by_hand():
    pairs = token_pairs([[5, 6, END], [END]], [[7, END], [8, 9, 10, END]])
    inputs, labels = make_batch(pairs, np.array([1, -1, 0]), 4)
    assert inputs["source"].tolist() == [
        [END, 0, 0, 0],
        [0, 0, 0, 0],
        [5, 6, END, 0],
    ]
    assert inputs["target"].tolist() == [
        [BEGIN, 8, 9, 10],
        [0, 0, 0, 0],
        [BEGIN, 7, 0, 0],
    ]
    assert labels.tolist() == [[8, 9, 10, END], [0, 0, 0, 0], [7, END, 0, 0]]


def test_training_data_are_the_plans_batches_from_a_step_on():
    pairs = made_up_pairs(50)
    plan = plan_of(pairs)
    step = plan.batches_per_epoch - 2
    data = training_data(pairs, plan, step).as_numpy_iterator()
    # Across the end of an epoch: training data have no end.
    batches = list(itertools.islice(data, 5))
    wanted = itertools.islice(plan.from_step(step), 5)
    for batch, (rows, length) in zip(batches, wanted):
        _assert_naive(batch, pairs, rows, length)


def test_evaluation_data_hold_every_pair_once():
    pairs = made_up_pairs(50)
    plan = plan_of(pairs)
    data = evaluation_data(pairs, plan)
    assert int(data.cardinality()) == plan.batches_per_epoch
    # Twice, because fit measures dev again and again.
    for _ in range(2):
        batches = list(data.as_numpy_iterator())
        assert len(batches) == plan.batches_per_epoch
        seen = [
            row[row > 0].tolist() for _, labels in batches for row in labels
        ]
        wanted = np.split(pairs.target, pairs.target_starts[1:-1])
        assert sorted(filter(None, seen)) == sorted(
            ids.tolist() for ids in wanted
        )


def test_tf_data_tunes_nothing():
    """Its tuning thread sleeps up to a minute, and whoever frees the iterator
    waits for it: after training, minutes in which nothing seems to happen.
    """
    pairs = made_up_pairs(50)
    plan = plan_of(pairs)
    for data in (training_data(pairs, plan, 0), evaluation_data(pairs, plan)):
        assert data.options().autotune.enabled is False
