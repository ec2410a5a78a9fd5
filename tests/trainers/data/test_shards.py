import dataclasses
import io
import pathlib
import tempfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.data.shards import file_crc32, read_shard, write_shard

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
    message = str(error)
    assert "\n" not in message
    assert str(folder) in message and "prepare the data again" in message


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


def test_the_checksum_covers_files_of_many_blocks(tmp_path):
    content = np.random.default_rng(1).bytes((2 << 20) + 77)
    (tmp_path / "x").write_bytes(content)
    assert file_crc32(tmp_path / "x") == zlib.crc32(content)


@pytest.mark.parametrize("file", FILES)
def test_truncated_and_missing_files_and_folders(tmp_path, refused, file):
    path = tmp_path / file
    content = path.read_bytes()
    for kept in (0.98, 0.5, 0.01, 0):
        path.write_bytes(content[: int(kept * len(content))])
        refused()
    path.write_bytes(content + b"\n")
    refused()
    path.unlink()
    refused()
    path.mkdir()
    refused()


def test_the_files_of_another_shard(tmp_path, refused):
    write_shard(tmp_path, "dev-00000", 5, IDS[:-1], LENGTHS[:1])
    for file in FILES:
        other = tmp_path / file.replace(NAME, "dev-00000")
        other.replace(tmp_path / file)
    refused()


@pytest.mark.parametrize(
    "ids",
    [
        IDS.astype(np.int64),
        IDS.astype(np.float32),
        IDS.astype(np.int16),
        IDS.astype(">u2"),
        IDS[None],
        IDS[:-1],
        np.array(5, np.uint16),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_ids_of_another_type_or_shape(tmp_path, refused, ids):
    np.save(tmp_path / IDS_FILE, ids)
    refused()


@pytest.mark.parametrize(
    "lengths",
    [
        LENGTHS.astype(np.int32),
        LENGTHS.astype(">u2"),
        np.asfortranarray(LENGTHS),
        LENGTHS.reshape(-1),
        # As many pairs and tokens, in another order.
        LENGTHS[::-1],
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_lengths_of_another_type_shape_or_order(tmp_path, refused, lengths):
    np.save(tmp_path / LENGTHS_FILE, lengths)
    refused()


def test_lengths_that_do_not_add_up_to_the_ids(tmp_path, refused, shard):
    """Even if their checksum is right."""
    np.save(tmp_path / LENGTHS_FILE, LENGTHS + 1)
    checksum = file_crc32(tmp_path / LENGTHS_FILE)
    refused(dataclasses.replace(shard, lengths_crc32=checksum))


class _Unpickled(Exception):
    pass


def _raise():
    raise _Unpickled


class _Trap:
    def __reduce__(self):
        return _raise, ()


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_unpickled_and_no_archive_opened(tmp_path, refused, file):
    trap = np.full((2, 2), None, object)
    trap[0, 0] = _Trap()
    np.save(tmp_path / file, trap, allow_pickle=True)
    with pytest.raises(_Unpickled):
        np.load(tmp_path / file, allow_pickle=True)
    refused()
    with (tmp_path / file).open("wb") as stream:
        np.savez(stream, ids=IDS)
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
    buffer = io.BytesIO()
    np.save(buffer, IDS if file == IDS_FILE else LENGTHS)
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
