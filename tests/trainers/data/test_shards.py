import dataclasses
import pathlib
import tempfile
import threading
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.data import shards
from trainers.data.shards import (
    TokenizedChunk,
    file_crc32,
    read_shard,
    tokenize,
    write_shard,
)

MAGIC = b"\x93NUMPY\x01\x00"
IDS = np.array([4, 3, 9, 60_000, 3, 3, 7, 3], np.uint16)
LENGTHS = np.array([[2, 3], [1, 2]], np.uint16)
NAME = "train-00007"
IDS_FILE, LENGTHS_FILE = FILES = f"{NAME}.ids.npy", f"{NAME}.lengths.npy"


@pytest.fixture
def shard(tmp_path):
    return write_shard(tmp_path, NAME, 5, IDS, LENGTHS)


@pytest.fixture
def refused(tmp_path, shard):
    """Asserts that the shard, as it is there now, is refused."""

    def check(other=shard):
        with pytest.raises(InputError) as caught:
            read_shard(tmp_path, other)
        _assert_clear(caught.value, tmp_path)

    return check


def _assert_clear(error, folder):
    assert "\n" not in str(error)
    assert str(folder) in str(error)


SENTENCE = st.lists(st.integers(0, 65_535), max_size=5)


@given(
    st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6),
    st.sampled_from([np.uint16, np.int32]),
    st.integers(0, 99),
)
def test_what_is_written_is_read(pairs, dtype, read):
    flat = [number for pair in pairs for side in pair for number in side]
    lengths = np.array([[len(s), len(t)] for s, t in pairs], np.uint16)
    lengths = lengths.reshape(-1, 2)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, read, np.array(flat, dtype), lengths)
        assert sorted(path.name for path in folder.iterdir()) == list(FILES)
        crc32s = [zlib.crc32((folder / file).read_bytes()) for file in FILES]
        expected = (NAME, read, len(pairs), len(flat), *crc32s)
        assert dataclasses.astuple(shard) == expected
        read_ids, read_lengths = read_shard(folder, shard)
        assert isinstance(read_ids, np.memmap)
        assert (read_ids.dtype, read_lengths.dtype) == (dtype, np.uint16)
        assert read_ids.tolist() == flat
        assert read_lengths.tolist() == lengths.tolist()


class _Unpickled(Exception):
    pass


def _raise():
    raise _Unpickled


class _Trap:
    def __reduce__(self):
        return _raise, ()


@pytest.mark.parametrize("file", FILES)
def test_damaged_missing_and_foreign_files(tmp_path, refused, file):
    path = tmp_path / file
    content = path.read_bytes()
    for share in (0.98, 0.5, 0.01, 0):
        path.write_bytes(content[: int(share * len(content))])
        refused()
    path.write_bytes(content + b"\n")
    refused()
    # Nothing is unpickled, and no archive opened.
    trap = np.full((2, 2), None, object)
    trap[0, 0] = _Trap()
    np.save(path, trap, allow_pickle=True)
    with pytest.raises(_Unpickled):
        np.load(path, allow_pickle=True)
    refused()
    with path.open("wb") as stream:
        np.savez(stream, ids=IDS)
    refused()
    path.unlink()
    refused()
    path.mkdir()
    refused()


def _flip_bits(content):
    """Yields the content with one bit flipped, at many places."""
    for place in range(0, 8 * len(content), 3):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)


# NumPy warns if the header's numbers end in a letter L.
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_a_flipped_bit_is_found_or_harmless(tmp_path, refused, shard):
    path = tmp_path / LENGTHS_FILE
    content = path.read_bytes()
    for damaged in _flip_bits(content):
        path.write_bytes(damaged)
        refused()
    path.write_bytes(content)
    path = tmp_path / IDS_FILE
    content = path.read_bytes()
    header = len(content) - IDS.nbytes
    for damaged in _flip_bits(content[:header]):
        path.write_bytes(damaged + content[header:])
        assert file_crc32(path) != shard.ids_crc32
        try:
            ids, _ = read_shard(tmp_path, shard)
        except InputError as error:
            _assert_clear(error, tmp_path)
        else:
            assert ids.tolist() == IDS.tolist()


# A header in NumPy's own form, with any content.
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "descr": st.sampled_from(["<u2", "<i4", "|O", "V9", "", 3, None]),
        "fortran_order": st.sampled_from([True, False, None, 1]),
        "shape": st.one_of(
            st.lists(st.integers(-2, 2**70), max_size=3).map(tuple),
            st.sampled_from([(8,), (2, 2), None, 8]),
        ),
        "more": st.just(1),
    },
)


def _with_header(header):
    text = f"{header!r}\n".encode()
    return MAGIC + len(text).to_bytes(2, "little") + text


@given(
    st.one_of(st.binary(), st.binary().map(MAGIC.__add__)).flatmap(
        lambda content: st.one_of(
            st.just(content), HEADERS.map(lambda h: _with_header(h) + content)
        )
    ),
    st.sampled_from(FILES),
)
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_any_other_bytes_are_refused(content, file):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, 5, IDS, LENGTHS)
        (folder / file).write_bytes(content)
        try:
            ids, lengths = read_shard(folder, shard)
        except InputError as error:
            _assert_clear(error, folder)
        else:
            # Ids of the right form can only be told by their checksum.
            assert file == IDS_FILE
            assert ids.shape == IDS.shape
            assert lengths.tolist() == LENGTHS.tolist()
            assert zlib.crc32(content) != shard.ids_crc32


END = 3


class _Letters:
    """A codec whose ids are the letters' codes; it has none for a z."""

    def explain_unencodable(self, target):
        return f"{target} has a z" if "z" in target else ""

    def encode(self, texts):
        return [np.array([*map(ord, text), END], np.int32) for text in texts]

    def encode_sources(self, texts):
        return self.encode(texts)

    def encode_targets(self, texts):
        return self.encode(texts)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(shards, "_CHUNK", 3)


def _texts(chunks):
    """The pairs as text again."""
    pairs = []
    for chunk in chunks:
        ids = iter(chunk.ids.tolist())
        for lengths in chunk.lengths.tolist():
            pair = [[next(ids) for _ in range(n)] for n in lengths]
            assert all(side[-1] == END for side in pair)
            pairs.append(tuple("".join(map(chr, s[:-1])) for s in pair))
        assert next(ids, None) is None
    return pairs


TEXT = st.text("abc", max_size=6)
TARGET = st.text("abz", max_size=4)


@given(st.lists(st.tuples(TEXT, TARGET)), st.integers(1, 7), st.integers(1, 4))
def test_pairs_come_in_order_without_long_and_unencodable_ones(
    pairs, max_tokens, workers
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "_CHUNK", 3)
        chunks = list(tokenize(iter(pairs), _Letters(), max_tokens, workers))
    expected = [
        pair
        for pair in pairs
        if max(map(len, pair)) + 1 <= max_tokens and "z" not in pair[1]
    ]
    assert _texts(chunks) == expected
    assert [chunk.num_read for chunk in chunks[:-1]] == [3] * (len(chunks) - 1)
    if chunks:
        whole = TokenizedChunk.concatenate(chunks)
        assert whole.ids.dtype == np.int32
        assert _texts([whole]) == expected
        assert whole.num_read == len(pairs)
        assert whole.unencodable == [
            (index, f"{target} has a z")
            for index, (_, target) in enumerate(pairs)
            if "z" in target
        ]


@pytest.mark.parametrize("workers", [1, 3])
def test_at_most_two_chunks_per_thread_are_held(small_chunks, workers):
    read, yielded = [0], 0

    def endless():
        while True:
            read[0] += 1
            yield f"s{read[0]}", f"t{read[0]}"

    chunks = tokenize(endless(), _Letters(), 99, workers)
    for _ in range(20):
        yielded += next(chunks).num_read
        assert read[0] - yielded == (2 * workers - 1) * 3
    chunks.close()
    assert read[0] - yielded == (2 * workers - 1) * 3


def test_threads_run_in_parallel(small_chunks):
    """Neither gets past the barrier without the other."""
    barrier = threading.Barrier(2)

    class Meeting(_Letters):
        def encode(self, texts):
            barrier.wait(timeout=30)
            return super().encode(texts)

    pairs = [("a", "b")] * 12
    assert _texts(tokenize(iter(pairs), Meeting(), 9, 2)) == pairs


def test_errors_come_after_finished_chunks_and_end_all_threads(small_chunks):
    def broken():
        yield from [("a", "b")] * 30
        raise InputError("Line 31 of x.en is not UTF-8.")

    class Broken(_Letters):
        def encode(self, texts):
            if "bad" in texts:
                raise MemoryError
            return super().encode(texts)

    before = threading.enumerate()
    chunks = tokenize(broken(), _Letters(), 9, 2)
    assert [next(chunks).num_read for _ in range(7)] == [3] * 7
    with pytest.raises(InputError, match="Line 31"):
        list(chunks)
    pairs = [("a", "b")] * 9 + [("bad", "b")] + [("a", "b")] * 99
    with pytest.raises(MemoryError):
        list(tokenize(iter(pairs), Broken(), 9, 2))
    assert set(threading.enumerate()) <= set(before)
