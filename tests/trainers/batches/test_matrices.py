import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from tests.keras_transformer.helpers import randomise
from tests.trainers.helpers import END, minute_config
from tests.trainers.wmt.slow_batches import (
    BEGIN,
    assert_equal,
    batch_of,
    pairs_of,
    slowly,
    some_texts,
)
from trainers.batches.collate import (
    make_batch,
    make_packed_batch,
    shard_for_replica,
)

SENTENCE = st.lists(st.integers(4, 12), max_size=6).map(lambda ids: [*ids, END])
TEXTS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8)
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
    batch = batch_of(texts, rows, numbers, room)
    assert_equal(
        make_batch(pairs_of(texts), batch), slowly(texts, batch, packed=False)
    )


@given(TEXTS, ROOM, st.data())
def test_a_packed_batch_equals_a_loop(texts, room, data):
    numbers = data.draw(st.permutations(range(len(texts))))
    rows = sorted(data.draw(st.integers(0, 3)) for _ in numbers)
    batch = batch_of(texts, rows, numbers, room)
    assert_equal(
        make_packed_batch(pairs_of(texts), batch),
        slowly(texts, batch, packed=True),
    )


TWO = [([5, 6, END], [7, END]), ([END], [8, 9, 10, END])]


def test_a_batch_by_hand():
    batch = batch_of(TWO, [0, 2], [1, 0], room=(1, 1, 0))
    inputs, labels = make_batch(pairs_of(TWO), batch)
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
    batch = batch_of(TWO, [0, 0], room=(0, 1, 0))
    inputs, labels = make_packed_batch(pairs_of(TWO), batch)
    assert {name: array.tolist() for name, array in inputs.items()} == {
        "source": [[5, 6, END, END, 0]],
        "source_segments": [[1, 1, 1, 2, 0]],
        "source_positions": [[0, 1, 2, 0, 0]],
        "target": [[BEGIN, 7, BEGIN, 8, 9, 10]],
        "target_segments": [[1, 1, 2, 2, 2, 2]],
        "target_positions": [[0, 1, 0, 1, 2, 3]],
    }
    assert labels.tolist() == [[7, END, 8, 9, 10, END]]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "learned", "max_positions": 9},
        {"attention_window": 2, "norm": "pre"},
    ],
)
def test_packed_pairs_get_the_logits_they_get_alone(changes):
    texts = some_texts(17, seed=1)
    pairs = pairs_of(texts)
    model = kt.Transformer(minute_config(**changes))
    randomise(model)
    rows = sorted(np.random.default_rng(2).integers(0, 4, len(texts)).tolist())
    packed = batch_of(texts, rows, room=(1, 2, 3))
    alone = batch_of(texts, list(range(len(texts))), room=(0, 0, 1))
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


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_replicas_parts_together_are_the_batch(rows, replicas):
    def matrix(width):
        return np.arange(1, rows * width + 1, dtype=np.int32).reshape(rows, -1)

    whole = {"source": matrix(3), "target": matrix(2)}, matrix(2)
    parts = [
        shard_for_replica(whole, number, replicas) for number in range(replicas)
    ]
    counts = [len(labels) for _, labels in parts]
    assert max(counts) - min(counts) <= 1
    for name, wanted in (*whole[0].items(), (None, whole[1])):
        joined = np.concatenate([p[0][name] if name else p[1] for p in parts])
        assert joined.dtype == np.int32
        assert joined.tolist() == wanted.tolist()
