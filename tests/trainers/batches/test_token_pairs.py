import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainers.batches.token_pairs import TokenPairs, ranges

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
    numbers = [np.array([number]) for number in range(len(pairs))]
    assert expected == [
        (pairs.sources(one).tolist(), pairs.targets(one).tolist())
        for one in numbers
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
        assert pairs.dropped == len(every) - len(expected)
        assert pairs is before or len(before) > len(pairs)


@given(SHARDS, st.data())
def test_ids_are_concatenated_in_the_order_asked_for(shards, data):
    pairs = TokenPairs([_shard(shard) for shard in shards])
    every = [pair for shard in shards for pair in shard]
    numbers = data.draw(
        st.lists(st.integers(0, len(every) - 1)) if every else st.just([])
    )
    asked = np.array(numbers, np.int64)
    for side, actual in enumerate((pairs.sources(asked), pairs.targets(asked))):
        assert actual.dtype == np.int32
        expected = [number for n in numbers for number in every[n][side]]
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


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 6))))
def test_ranges_equal_a_loop(pairs):
    starts = np.array([start for start, _ in pairs], np.int64)
    lengths = np.array([length for _, length in pairs], np.int32)
    expected = [
        start + offset for start, length in pairs for offset in range(length)
    ]
    actual = ranges(starts, lengths)
    assert actual.dtype == np.int64
    assert actual.tolist() == expected
