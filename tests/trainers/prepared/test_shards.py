import dataclasses
import io
import pathlib
import tempfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.errors import InputError
from trainers.prepared.shards import file_crc32, read_shard, write_shard

MAGIC = b"\x93NUMPY\x01\x00"
IDS = np.array([4, 3, 9, 60_000, 3, 3, 7, 3], np.uint16)
LENGTHS = np.array([[2, 3], [1, 2]], np.uint16)
NAME = "train-00007"
FILES = (f"{NAME}.ids.npy", f"{NAME}.lengths.npy")


@pytest.fixture
def shard(tmp_path):
    return write_shard(tmp_path, NAME, 5, IDS, LENGTHS)


@pytest.fixture
def refused(tmp_path, shard):
    """Asserts that the shard, as it lies there now, is refused."""

    def check(other=shard):
        with pytest.raises(InputError) as caught:
            read_shard(tmp_path, other)
        _assert_clear(caught.value, tmp_path)

    return check


def _assert_clear(error, folder):
    message = str(error)
    assert "\n" not in message
    assert str(folder) in message
    assert "prepare the data again" in message


SENTENCE = st.lists(st.integers(0, 65_535), max_size=5)


@given(
    st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6),
    st.sampled_from([np.uint16, np.int32]),
    st.integers(0, 99),
)
def test_what_is_written_is_read(pairs, dtype, read):
    flat = [number for pair in pairs for side in pair for number in side]
    ids = np.array(flat, dtype)
    lengths = np.array([[len(s), len(t)] for s, t in pairs], np.uint16)
    lengths = lengths.reshape(-1, 2)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, read, ids, lengths)
        assert sorted(path.name for path in folder.iterdir()) == list(FILES)
        crc32s = [zlib.crc32((folder / file).read_bytes()) for file in FILES]
        assert dataclasses.astuple(shard) == (
            NAME,
            read,
            len(pairs),
            len(flat),
            *crc32s,
        )
        read_ids, read_lengths = read_shard(folder, shard)
        assert isinstance(read_ids, np.memmap)
        assert not isinstance(read_lengths, np.memmap)
        assert (read_ids.dtype, read_lengths.dtype) == (dtype, np.uint16)
        assert read_ids.tolist() == flat
        assert read_lengths.tolist() == lengths.tolist()


def test_the_checksum_covers_files_of_many_blocks(tmp_path):
    content = np.random.default_rng(1).bytes((2 << 20) + 77)
    (tmp_path / "x").write_bytes(content)
    assert file_crc32(tmp_path / "x") == zlib.crc32(content)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.98])
def test_a_truncated_file(tmp_path, refused, file, kept):
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    refused()


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file(tmp_path, refused, file):
    (tmp_path / file).unlink()
    refused()


@pytest.mark.parametrize("file", FILES)
def test_a_folder_in_place_of_a_file(tmp_path, refused, file):
    (tmp_path / file).unlink()
    (tmp_path / file).mkdir()
    refused()


def test_the_files_of_another_shard(tmp_path, refused):
    other = write_shard(tmp_path, "dev-00000", 5, IDS[:-1], LENGTHS[:1])
    for end in ("ids", "lengths"):
        (tmp_path / f"dev-00000.{end}.npy").replace(
            tmp_path / f"{NAME}.{end}.npy"
        )
    refused()
    assert other.pairs == 1


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
    np.save(tmp_path / FILES[0], ids)
    refused()


def test_ids_with_something_behind_them(tmp_path, refused):
    with (tmp_path / FILES[0]).open("ab") as file:
        file.write(b"\n")
    refused()


@pytest.mark.parametrize(
    "lengths",
    [
        LENGTHS.astype(np.int32),
        LENGTHS.astype(">u2"),
        np.asfortranarray(LENGTHS),
        LENGTHS.reshape(-1),
        # As many pairs and tokens, but not those.
        LENGTHS[::-1],
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_lengths_of_another_type_shape_or_order(tmp_path, refused, lengths):
    np.save(tmp_path / FILES[1], lengths)
    refused()


def test_lengths_that_do_not_add_up_to_the_ids(tmp_path, refused, shard):
    """Even where their checksum is right."""
    np.save(tmp_path / FILES[1], LENGTHS + 1)
    checksum = file_crc32(tmp_path / FILES[1])
    refused(dataclasses.replace(shard, lengths_crc32=checksum))


class _Unpickled(Exception):
    pass


def _raise():
    raise _Unpickled


class _Trap:
    def __reduce__(self):
        return _raise, ()


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_unpickled(tmp_path, refused, file):
    trap = np.full((2, 2), None, object)
    trap[0, 0] = _Trap()
    np.save(tmp_path / file, trap, allow_pickle=True)
    with pytest.raises(_Unpickled):
        np.load(tmp_path / file, allow_pickle=True)
    refused()


@pytest.mark.parametrize("file", FILES)
def test_an_archive_of_arrays_is_none(tmp_path, refused, file):
    with (tmp_path / file).open("wb") as stream:
        np.savez(stream, ids=IDS)
    refused()
    (tmp_path / file).write_bytes(b"PK\x03\x04 and no archive")
    refused()


def _flipped(content):
    """The content with one bit the other way, at many places."""
    for place in range(0, 8 * len(content), 3):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)


# NumPy tells so where the header's numbers end in a letter L.
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_a_flipped_bit_of_the_lengths_is_found(tmp_path, refused):
    path = tmp_path / FILES[1]
    for damaged in _flipped(path.read_bytes()):
        path.write_bytes(damaged)
        refused()


@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_a_flipped_bit_of_the_ids_header_is_found_or_harmless(tmp_path, shard):
    path = tmp_path / FILES[0]
    whole = path.read_bytes()
    header = len(whole) - IDS.nbytes
    for damaged in _flipped(whole[:header]):
        path.write_bytes(damaged + whole[header:])
        try:
            ids, lengths = read_shard(tmp_path, shard)
        except InputError as error:
            _assert_clear(error, tmp_path)
        else:
            assert ids.tolist() == IDS.tolist()
            assert lengths.tolist() == LENGTHS.tolist()
        assert file_crc32(path) != shard.ids_crc32


# A header in NumPy's own form, whatever it says.
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
    np.save(buffer, IDS if file == FILES[0] else LENGTHS)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, 5, IDS, LENGTHS)
        (folder / file).write_bytes(content)
        try:
            ids, lengths = read_shard(folder, shard)
        except InputError as error:
            _assert_clear(error, folder)
        else:
            # What has the right form can only be told by its checksum.
            assert file == FILES[0]
            assert ids.shape == IDS.shape
            assert lengths.tolist() == LENGTHS.tolist()
            assert zlib.crc32(content) != shard.ids_crc32
