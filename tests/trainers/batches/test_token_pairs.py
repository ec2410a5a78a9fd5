import collections

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from tests.keras_transformer.helpers import randomise
from tests.trainers.batches.batch_loop import (
    assert_equal,
    batch_of,
    pairs_of,
    reference_batch,
    some_texts,
)
from tests.trainers.helpers import END, minute_config
from trainers.batches.token_pairs import (
    TokenPairs,
    make_batch,
)

IDS = st.lists(st.integers(0, 65_535), max_size=5)
# Lists of shards, which are lists of pairs; any of them may be empty.
SHARDS = st.lists(st.lists(st.tuples(IDS, IDS), max_size=4), max_size=4)


def _shard(pairs, dtype=np.uint16):
    flat = [number for pair in pairs for side in pair for number in side]
    lengths = [[len(source), len(target)] for source, target in pairs]
    return (
        np.array(flat, dtype),
        np.array(lengths, np.uint16).reshape(-1, 2),
    )


def _assert_holds(pairs, expected):
    indices = [np.array([number]) for number in range(len(pairs))]
    assert expected == [
        (pairs.sources(one).tolist(), pairs.targets(one).tolist())
        for one in indices
    ]
    assert pairs.source_lengths.tolist() == [len(s) for s, _ in expected]
    assert pairs.target_lengths.tolist() == [len(t) for _, t in expected]
    assert pairs.source_lengths.dtype == pairs.target_lengths.dtype == np.int32


@given(
    SHARDS,
    st.sampled_from([np.uint16, np.int32]),
    st.lists(st.integers(1, 6), max_size=3),
)
def test_pairs_are_found_and_filtered_by_length(shards, dtype, limits):
    pairs = TokenPairs([_shard(shard, dtype) for shard in shards])
    expected = every = [pair for shard in shards for pair in shard]
    _assert_holds(pairs, every)
    for limit in limits:
        before = pairs
        pairs = pairs.filter_by_length(limit)
        expected = [pair for pair in expected if max(map(len, pair)) <= limit]
        _assert_holds(pairs, expected)
        assert pairs is before or len(before) > len(pairs)


@given(SHARDS, st.data())
def test_ids_are_concatenated_in_the_order_asked_for(shards, data):
    pairs = TokenPairs([_shard(shard) for shard in shards])
    every = [pair for shard in shards for pair in shard]
    indices = data.draw(
        st.lists(st.integers(0, len(every) - 1)) if every else st.just([])
    )
    asked = np.array(indices, np.int64)
    for side, actual in enumerate((pairs.sources(asked), pairs.targets(asked))):
        assert actual.dtype == np.int32
        expected = [number for n in indices for number in every[n][side]]
        assert actual.tolist() == expected


def test_ids_are_read_in_place(tmp_path):
    ids, lengths = _shard([([4, 3], [5, 6, 3]), ([3], [7, 3])])
    np.save(tmp_path / "ids.npy", ids)
    stored = np.load(tmp_path / "ids.npy", mmap_mode="r+")
    pairs = TokenPairs([(stored, lengths)])
    # Written after they were opened, and seen: so nothing was copied.
    stored[0] = 9
    assert pairs.sources(np.array([0, 1])).tolist() == [9, 3, 3]
    assert pairs.filter_by_length(2).sources(np.array([0])).tolist() == [3]


class _Far:
    """Stands for an array beyond 32 bits: returns where it is read."""

    def __getitem__(self, places):
        return places // 65_535


def test_a_shard_may_have_more_ids_than_32_bits_count():
    lengths = np.full((40_000, 2), 65_535, np.uint16)
    pairs = TokenPairs([(_Far(), lengths)])
    last = np.array([39_999])
    assert set(pairs.sources(last).tolist()) == {2 * 39_999}
    assert set(pairs.targets(last).tolist()) == {2 * 39_999 + 1}


# Batches.

SENTENCE = st.lists(st.integers(4, 12), max_size=6).map(lambda ids: [*ids, END])
TEXTS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8)
PADDING = st.tuples(*[st.integers(0, 3)] * 3)


@given(TEXTS, PADDING, st.booleans(), st.data())
def test_a_batch_equals_a_loop(texts, padding, packed, data):
    indices = data.draw(st.permutations(range(len(texts))))
    steps = st.integers(0, 2) if packed else st.integers(1, 3)
    rows = np.cumsum([data.draw(steps) for _ in indices])
    batch = batch_of(texts, rows.tolist(), indices, padding)
    expected = reference_batch(texts, batch, packed)
    assert_equal(make_batch(pairs_of(texts), batch, packed), expected)


def test_packed_pairs_get_the_logits_they_get_alone():
    texts = some_texts(17, seed=1)
    pairs = pairs_of(texts)
    model = kt.Transformer(minute_config(attention_window=2, norm="pre"))
    randomise(model)
    rows = sorted(np.random.default_rng(2).integers(0, 4, len(texts)).tolist())
    packed = batch_of(texts, rows, padding=(1, 2, 3))
    alone = batch_of(texts, list(range(len(texts))), padding=(0, 0, 1))
    packed_logits = model(make_batch(pairs, packed, packed=True)[0]).numpy()
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
