import collections
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from tests.keras_transformer.helpers import randomise
from tests.trainers.helpers import END, minute_config, token_pairs
from trainers.batch_plan import Batch, BatchPlan, BatchShape, Bucket
from trainers.input_data import (
    evaluation_data,
    make_batch,
    make_packed_batch,
    part_of,
    training_data,
)
from trainers.strategies import make_strategy

BEGIN = 2
SENTENCE = st.lists(st.integers(4, 12), max_size=6).map(lambda ids: [*ids, END])
TEXTS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8)
SIDES = ("source", "target")

# How many pairs a row of a plan holds, at most.
KINDS = {"length": 1, "pack": 3}


def _batch(texts, rows, numbers=None, room=(0, 0, 0)):
    """Some pairs in some rows, with room for more on every side."""
    numbers = range(len(texts)) if numbers is None else numbers
    widths = [
        max(
            sum(len(texts[n][side]) for n, r in zip(numbers, rows) if r == row)
            for row in set(rows)
        )
        for side in (0, 1)
    ]
    sizes = (max(rows) + 1, *widths)
    shape = BatchShape(*(size + more for size, more in zip(sizes, room)))
    return Batch(np.array(numbers), np.array(rows), shape)


def _slowly(texts, batch, packed):
    """One id at a time."""
    rows, *lengths = batch.shape
    widths = {
        f"{side}{kind}": length
        for side, length in zip(SIDES, lengths)
        for kind in ("", "_segments", "_positions")
    }
    widths["labels"] = widths["target"]
    matrices = {
        name: [[0] * width for _ in range(rows)]
        for name, width in widths.items()
    }
    ends = [[0, 0] for _ in range(rows)]
    segment = [0] * rows
    for number, row in zip(batch.pairs, batch.rows):
        segment[row] += 1
        for side, name in enumerate(SIDES):
            ids = texts[number][side]
            shown = ids if name == "source" else [BEGIN, *ids[:-1]]
            for position, (token, label) in enumerate(zip(shown, ids)):
                column = ends[row][side]
                ends[row][side] += 1
                matrices[name][row][column] = token
                matrices[f"{name}_segments"][row][column] = segment[row]
                matrices[f"{name}_positions"][row][column] = position
                if name == "target":
                    matrices["labels"][row][column] = label
    labels = matrices.pop("labels")
    if not packed:
        matrices = {name: matrices[name] for name in SIDES}
    return matrices, labels


def _assert_equal(actual, expected):
    inputs, labels = actual
    assert all(
        np.asarray(array).dtype == np.int32
        for array in (*inputs.values(), labels)
    )
    as_lists = {name: np.asarray(a).tolist() for name, a in inputs.items()}
    assert (as_lists, np.asarray(labels).tolist()) == expected


def _pairs(texts):
    return token_pairs(*zip(*texts))


ROOM = st.tuples(*[st.integers(0, 3)] * 3)


@given(TEXTS, ROOM, st.data())
def test_a_batch_equals_a_loop(texts, room, data):
    numbers = data.draw(
        st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=8)
    )
    # Rows of padding may stand anywhere.
    steps = data.draw(
        st.lists(
            st.integers(1, 3), min_size=len(numbers), max_size=len(numbers)
        )
    )
    rows = (np.cumsum(steps) - 1).tolist()
    batch = _batch(texts, rows, numbers, room)
    _assert_equal(
        make_batch(_pairs(texts), batch), _slowly(texts, batch, packed=False)
    )


@given(TEXTS, ROOM, st.data())
def test_a_packed_batch_equals_a_loop(texts, room, data):
    numbers = data.draw(st.permutations(range(len(texts))))
    rows = sorted(data.draw(st.integers(0, 3)) for _ in numbers)
    batch = _batch(texts, rows, numbers, room)
    _assert_equal(
        make_packed_batch(_pairs(texts), batch),
        _slowly(texts, batch, packed=True),
    )


TWO = [([5, 6, END], [7, END]), ([END], [8, 9, 10, END])]


def test_a_batch_by_hand():
    batch = _batch(TWO, [0, 2], [1, 0], room=(1, 1, 0))
    inputs, labels = make_batch(_pairs(TWO), batch)
    assert inputs["source"].tolist() == [
        [END, 0, 0, 0],
        [0, 0, 0, 0],
        [5, 6, END, 0],
        [0, 0, 0, 0],
    ]
    assert inputs["target"].tolist() == [
        [BEGIN, 8, 9, 10],
        [0, 0, 0, 0],
        [BEGIN, 7, 0, 0],
        [0, 0, 0, 0],
    ]
    assert labels.tolist() == [
        [8, 9, 10, END],
        [0, 0, 0, 0],
        [7, END, 0, 0],
        [0, 0, 0, 0],
    ]


def test_a_packed_batch_by_hand():
    batch = _batch(TWO, [0, 0], room=(0, 1, 0))
    inputs, labels = make_packed_batch(_pairs(TWO), batch)
    assert {name: array.tolist() for name, array in inputs.items()} == {
        "source": [[5, 6, END, END, 0]],
        "source_segments": [[1, 1, 1, 2, 0]],
        "source_positions": [[0, 1, 2, 0, 0]],
        "target": [[BEGIN, 7, BEGIN, 8, 9, 10]],
        "target_segments": [[1, 1, 2, 2, 2, 2]],
        "target_positions": [[0, 1, 0, 1, 2, 3]],
    }
    assert labels.tolist() == [[7, END, 8, 9, 10, END]]


def _some_texts(count, seed):
    generator = np.random.default_rng(seed)

    def sentence():
        return [*generator.integers(4, 13, generator.integers(0, 8)), END]

    return [(sentence(), sentence()) for _ in range(count)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "learned", "max_positions": 9},
        {"attention_window": 2, "norm": "pre"},
    ],
)
def test_packed_pairs_get_the_logits_they_get_alone(changes):
    texts = _some_texts(17, seed=1)
    pairs = _pairs(texts)
    model = kt.Transformer(minute_config(**changes))
    randomise(model)
    rows = sorted(np.random.default_rng(2).integers(0, 4, len(texts)).tolist())
    packed = _batch(texts, rows, room=(1, 2, 3))
    alone = _batch(texts, list(range(len(texts))), room=(0, 0, 1))
    inputs, labels = make_packed_batch(pairs, packed)
    together = model(inputs).numpy()
    inputs, labels_alone = make_batch(pairs, alone)
    apart = model(inputs).numpy()
    ends = collections.Counter()
    for number, row in enumerate(rows):
        length = len(texts[number][1])
        columns = slice(ends[row], ends[row] + length)
        ends[row] += length
        np.testing.assert_allclose(
            together[row, columns], apart[number, :length], rtol=0, atol=1e-5
        )
        assert (
            labels[row, columns].tolist()
            == labels_alone[number, :length].tolist()
            == texts[number][1]
        )
    assert max(collections.Counter(rows).values()) > 2


@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_the_replicas_parts_together_are_the_batch(
    rows, replicas, micro_batches
):
    def matrix(width):
        return np.arange(1, rows * width + 1, dtype=np.int32).reshape(rows, -1)

    whole = {"source": matrix(3), "target": matrix(2)}, matrix(2)
    parts = [
        part_of(whole, number, replicas, micro_batches)
        for number in range(replicas)
    ]
    counts = {len(labels) for _, labels in parts}
    (share,) = counts
    assert share % micro_batches == 0
    # No more padding than the parts' equal size asks for.
    assert share * replicas - rows < replicas * micro_batches
    for name, wanted in (*whole[0].items(), (None, whole[1])):
        joined = np.concatenate([p[0][name] if name else p[1] for p in parts])
        assert joined.dtype == np.int32
        assert joined[:rows].tolist() == wanted.tolist()
        assert not joined[rows:].any()


def _plan(texts, pairs_a_row):
    """Three shapes; a batch of each is not full."""
    buckets = []
    for number, group in enumerate(np.array_split(np.arange(len(texts)), 3)):
        starts = np.append(np.arange(0, len(group), pairs_a_row), len(group))
        batch = _batch(
            texts, np.arange(len(group)) // pairs_a_row, group, (0, number, 1)
        )
        shape = batch.shape._replace(rows=8)
        buckets.append(Bucket(group, starts, shape))
    plan = BatchPlan(buckets, seed=1)
    assert plan.batches_per_epoch >= 3
    return plan


TEXT = _some_texts(50, seed=3)
PAIRS = _pairs(TEXT)


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
        _assert_equal(batch, _slowly(TEXT, planned, kind == "pack"))


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
            _assert_equal(batch, _slowly(TEXT, planned, kind == "pack"))
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
    st.integers(1, 4),
    st.integers(0, 7),
    st.sampled_from([*KINDS]),
)
def test_any_number_of_replicas_gets_the_same_global_batch(
    sizes, micro_batches, step, kind
):
    replicas, machines = sizes
    plan, local = _plan(TEXT, KINDS[kind]), replicas // machines
    datasets = training_data(
        _Strategy(replicas, machines), PAIRS, plan, step, micro_batches
    )
    streams = [dataset.as_numpy_iterator() for dataset in datasets]
    for wanted in itertools.islice(plan.from_step(step), 4):
        # A machine's stream holds its replicas' parts in turn.
        parts = [next(s) for s in streams for _ in range(local)]
        assert len({labels.shape for _, labels in parts}) == 1
        assert all(len(labels) % micro_batches == 0 for _, labels in parts)
        inputs, labels = _slowly(TEXT, wanted, kind == "pack")
        for name, expected in (*inputs.items(), (None, labels)):
            joined = np.concatenate(
                [part[0][name] if name else part[1] for part in parts]
            )
            assert joined[: len(expected)].tolist() == expected
            assert not joined[len(expected) :].any()


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
