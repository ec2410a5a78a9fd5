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
from trainers.batches.token_pairs import (
    make_batch,
    make_packed_batch,
    shard_for_replica,
)

SENTENCE = st.lists(st.integers(4, 12), max_size=6).map(lambda ids: [*ids, END])
TEXTS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8)
PADDING = st.tuples(*[st.integers(0, 3)] * 3)


@given(TEXTS, PADDING, st.booleans(), st.data())
def test_a_batch_equals_a_loop(texts, padding, packed, data):
    numbers = data.draw(st.permutations(range(len(texts))))
    steps = st.integers(0, 2) if packed else st.integers(1, 3)
    rows = np.cumsum([data.draw(steps) for _ in numbers])
    batch = batch_of(texts, rows.tolist(), numbers, padding)
    make = make_packed_batch if packed else make_batch
    assert_equal(make(pairs_of(texts), batch), slowly(texts, batch, packed))


TWO = [([5, 6, END], [7, END]), ([END], [8, 9, 10, END])]


def test_a_batch_by_hand():
    batch = batch_of(TWO, [0, 2], [1, 0], room=(1, 1, 0))
    inputs, labels = make_batch(pairs_of(TWO), batch)
    empty = [0, 0, 0, 0]
    assert inputs["source"].tolist() == [
        *([END, 0, 0, 0], empty, [5, 6, END, 0], empty)
    ]
    assert inputs["target"].tolist() == [
        *([BEGIN, 8, 9, 10], empty, [BEGIN, 7, 0, 0], empty)
    ]
    assert labels.tolist() == [*([8, 9, 10, END], empty, [7, END, 0, 0], empty)]


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
    packed_logits = model(make_packed_batch(pairs, packed)[0]).numpy()
    logits = model(make_batch(pairs, alone)[0]).numpy()
    ends = collections.Counter()
    for number, row in enumerate(rows):
        length = len(texts[number][1])
        columns = slice(ends[row], ends[row] + length)
        ends[row] += length
        np.testing.assert_allclose(
            packed_logits[row, columns],
            logits[number, :length],
            rtol=0,
            atol=1e-5,
        )


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_shards_of_all_replicas_are_the_batch(rows, replicas):
    source = np.arange(3 * rows, dtype=np.int32).reshape(rows, 3)
    labels = source[:, :2] + 1
    shards = [
        shard_for_replica(({"source": source}, labels), replica, replicas)
        for replica in range(replicas)
    ]
    counts = [len(labels) for _, labels in shards]
    assert max(counts) - min(counts) <= 1
    joined = np.concatenate([inputs["source"] for inputs, _ in shards])
    assert joined.tolist() == source.tolist()
    joined = np.concatenate([labels for _, labels in shards])
    assert joined.tolist() == labels.tolist()
