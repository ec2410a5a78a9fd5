import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainers.batches.token_pairs import TokenPairs, ranges

IDS = st.lists(st.integers(0, 65_535), max_size=5)
# Lists of shards, which are lists of pairs; any of them may be empty.
SHARDS = st.lists(st.lists(st.tuples(IDS, IDS), max_size=4), max_size=4)
DTYPES = st.sampled_from([np.uint16, np.int32])


def _shard(pairs, dtype=np.uint16):
    flat = [number for pair in pairs for side in pair for number in side]
    lengths = [[len(source), len(target)] for source, target in pairs]
    return (
        np.array(flat, dtype),
        np.array(lengths, np.uint16).reshape(-1, 2),
    )


def _texts(pairs):
    """Each pair as two lists of ids, asked for one by one."""
    numbers = [np.array([number]) for number in range(len(pairs))]
    return [
        (pairs.sources(one).tolist(), pairs.targets(one).tolist())
        for one in numbers
    ]


@given(SHARDS, DTYPES)
def test_every_pair_is_found(shards, dtype):
    pairs = TokenPairs([_shard(shard, dtype) for shard in shards])
    every = [pair for shard in shards for pair in shard]
    assert len(pairs) == len(every)
    assert _texts(pairs) == every
    assert pairs.source_lengths.tolist() == [len(s) for s, _ in every]
    assert pairs.target_lengths.tolist() == [len(t) for _, t in every]
    assert pairs.source_lengths.dtype == pairs.target_lengths.dtype == np.int32
    assert pairs.dropped == 0


@given(SHARDS, st.data())
def test_many_come_one_after_the_other_in_the_order_asked_for(shards, data):
    pairs = TokenPairs([_shard(shard) for shard in shards])
    every = [pair for shard in shards for pair in shard]
    numbers = data.draw(
        st.lists(st.integers(0, len(every) - 1)) if every else st.just([])
    )
    asked = np.array(numbers, np.int64)
    for side, actual in enumerate((pairs.sources(asked), pairs.targets(asked))):
        assert actual.dtype == np.int32
        wanted = [number for n in numbers for number in every[n][side]]
        assert actual.tolist() == wanted


@given(SHARDS, st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_long_pairs_are_left_out_and_counted(shards, limits):
    """Also of what has left out pairs before."""
    pairs = TokenPairs([_shard(shard) for shard in shards])
    every = [pair for shard in shards for pair in shard]
    kept = every
    for limit in limits:
        before = pairs
        pairs = pairs.filter_by_length(limit)
        kept = [pair for pair in kept if max(map(len, pair)) <= limit]
        assert _texts(pairs) == kept
        assert len(pairs) == len(kept)
        assert pairs.dropped == len(every) - len(kept)
        assert pairs.source_lengths.tolist() == [len(s) for s, _ in kept]
        assert pairs.target_lengths.tolist() == [len(t) for _, t in kept]
        assert pairs is before or len(before) > len(pairs)


def test_no_shard_is_no_pair():
    pairs = TokenPairs([])
    assert len(pairs) == 0
    assert pairs.sources(np.zeros(0, np.int64)).tolist() == []
    assert len(pairs.filter_by_length(1)) == 0


def test_ids_are_read_from_the_disk_only_when_asked_for(tmp_path):
    ids, lengths = _shard([([4, 3], [5, 6, 3]), ([3], [7, 3])])
    np.save(tmp_path / "ids.npy", ids)
    stored = np.load(tmp_path / "ids.npy", mmap_mode="r+")
    pairs = TokenPairs([(stored, lengths)])
    # Written after they were opened, and seen: so nothing was copied.
    stored[0] = 9
    assert pairs.sources(np.array([0, 1])).tolist() == [9, 3, 3]
    assert pairs.filter_by_length(2).sources(np.array([0])).tolist() == [3]


class _Far:
    """Stands for an array beyond 32 bits: gives back where it is read."""

    def __getitem__(self, places):
        return places // 65_535


def test_a_shard_may_be_longer_than_32_bits_count():
    """40,000 pairs of the greatest length on both sides are 5.2e9 ids."""
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
