"""Manifests, shards and folders of prepared data, and hostile ones."""

import copy
import dataclasses
import json
import pathlib
import tempfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.damage import flip_bit
from tests.trainers.data.interruptions import Killed, at_write
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    prepare,
    rows,
    vocabulary,
)
from trainers.data import prepared_corpus
from trainers.data.manifest import (
    MANIFEST_FILE,
    DataSource,
    Manifest,
    Shard,
    SideCounts,
    Split,
    read_manifest,
    write_manifest,
)
from trainers.data.prepared_corpus import (
    PreparedCorpus,
    read_shard,
    write_shard,
)
from trainers.data.tokenization import TokenizedChunk

MANIFEST = Manifest(
    DataSource(
        dataset="text:toy",
        source_language="en",
        target_language="xx",
        fingerprint="0123456789abcdef",
        vocabulary_size=64,
        max_tokens=100,
    ),
    *("ab" * 32, "cd" * 32),
    {
        "train": Split(
            (Shard("train-00000", 3, 12, 77, 78),),
            *(5, SideCounts(7, 1, "a"), SideCounts(9), 1, "x"),
        )
    },
    True,
    "ef" * 32,
)
LENGTH = st.integers(0, 9)
PAIRS = st.lists(st.tuples(LENGTH, LENGTH))


@settings(max_examples=30)
@given(st.lists(st.tuples(LENGTH, PAIRS, st.integers(0, 2)), max_size=4))
def test_a_split_counts_the_pairs_of_its_shards(parts):
    split, firsts, lines = Split(), [], 0
    for number, (too_long, pairs, unencodable) in enumerate(parts):
        read = len(pairs) + too_long + unencodable
        chunk = TokenizedChunk(
            read,
            *(None, None),
            *(SideCounts(sum(side)) for side in zip((0, 0), *pairs)),
            [(index, f"{number}") for index in range(unencodable)],
        )
        shard = Shard(f"train-{number}", len(pairs), 0, 0, 0)
        shards = (*split.shards, shard)
        split = dataclasses.replace(split.with_chunk(chunk), shards=shards)
        firsts += [f"line {lines + 1}: {number}"] * (unencodable > 0)
        lines += read
    every = [pair for _, pairs, _ in parts for pair in pairs]
    assert (split.num_read, split.num_pairs) == (lines, len(every))
    assert split.num_too_long == sum(count for count, _, _ in parts)
    assert split.num_unencodable == sum(count for _, _, count in parts)
    assert split.first_unencodable == (firsts[0] if firsts else "")
    assert split.source.num_tokens == sum(source for source, _ in every)
    assert split.target.num_tokens == sum(target for _, target in every)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "new")
        assert read_manifest(folder) is None
        manifest = dataclasses.replace(MANIFEST, splits={"train": split})
        write_manifest(folder, manifest)
        assert read_manifest(folder) == manifest


def _assert_clear(error, path):
    assert "\n" not in str(error)
    assert str(path) in str(error)


def _assert_manifest_refused(folder, content):
    path = folder / MANIFEST_FILE
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_manifest(folder)
    _assert_clear(caught.value, path)


def _key_paths(content, above=()):
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _key_paths(value, (*above, key))


def test_any_other_manifest_is_refused(tmp_path):
    write_manifest(tmp_path, MANIFEST)
    content = json.loads((tmp_path / MANIFEST_FILE).read_text())
    checked = 0
    for *above, last in _key_paths(content):
        for other in (None, True, -1, 1.5, "../x", "", [], [[]], {}, {"a": 1}):
            changed = inner = copy.deepcopy(content)
            for key in above:
                inner = inner[key]
            same = type(other) is type(inner[last]) and other != -1
            if same:
                continue
            inner[last] = other
            _assert_manifest_refused(tmp_path, json.dumps(changed).encode())
            checked += 1
        # Others have a default, since older manifests lack some.
        needed = ("vocabulary_sha256", "fingerprint", "num_pairs")
        if last in needed:
            del inner[last]
            _assert_manifest_refused(tmp_path, json.dumps(changed).encode())
    assert checked > 100
    # Names of shards do not leave the folder.
    for name in ("../../etc/passwd", "/etc/passwd", "..", "", "a\\b", "a\0b"):
        content["splits"]["train"]["shards"][0]["name"] = name
        _assert_manifest_refused(tmp_path, json.dumps(content).encode())
    for other in (
        *(b"", b"\xff", b"\xef\xbb\xbf{}", b"null", b"[1]", b'"a"', b"1e999"),
        *(b"[" * 99_999, b'{"a":1' * 9_999),
    ):
        _assert_manifest_refused(tmp_path, other)


MAGIC = b"\x93NUMPY\x01\x00"
IDS = np.array([4, 3, 9, 60_000, 3, 3, 7, 3], np.uint16)
LENGTHS = np.array([[2, 3], [1, 2]], np.uint16)
NAME = "train-00007"
IDS_FILE, LENGTHS_FILE = FILES = f"{NAME}.ids.npy", f"{NAME}.lengths.npy"
SENTENCE = st.lists(st.integers(0, 65_535), max_size=5)


@settings(max_examples=20)
@given(
    st.lists(st.tuples(SENTENCE, SENTENCE), max_size=6),
    st.sampled_from([np.uint16, np.int32]),
)
def test_a_written_shard_is_read(pairs, dtype):
    flat = [number for pair in pairs for side in pair for number in side]
    lengths = np.array([[len(s), len(t)] for s, t in pairs], np.uint16)
    lengths = lengths.reshape(-1, 2)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, np.array(flat, dtype), lengths)
        crc32s = [zlib.crc32((folder / file).read_bytes()) for file in FILES]
        expected = (NAME, len(pairs), len(flat), *crc32s)
        assert dataclasses.astuple(shard) == expected
        read_ids, read_lengths = read_shard(folder, shard)
        assert isinstance(read_ids, np.memmap)
        assert (read_ids.dtype, read_lengths.dtype) == (dtype, np.uint16)
        assert read_ids.tolist() == flat
        assert read_lengths.tolist() == lengths.tolist()


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


def _flip(content, bit):
    damaged = bytearray(content)
    damaged[bit // 8 % len(content)] ^= 1 << bit % 8
    return bytes(damaged)


# A function of the content that the file had. Objects would be unpickled.
DAMAGES = st.one_of(
    st.integers(-3, -1).map(lambda end: lambda content: content[:end]),
    st.just(lambda content: content + b"\n"),
    st.integers(0, 2000).map(lambda bit: lambda content: _flip(content, bit)),
    st.tuples(
        st.just(b"") | st.just(MAGIC) | HEADERS.map(_with_header), st.binary()
    ).map(lambda parts: lambda content: b"".join(parts)),
)


# NumPy warns if the header's numbers end in a letter L.
@pytest.mark.filterwarnings("ignore:Reading `.npy`")
@settings(max_examples=60)
@given(DAMAGES, st.sampled_from(FILES))
def test_any_other_bytes_are_refused(damage, file):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shard = write_shard(folder, NAME, IDS, LENGTHS)
        content = damage((folder / file).read_bytes())
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


def _use(folder):
    """Opens all that a training opens."""
    corpus = PreparedCorpus(folder)
    for split in ("train", "dev"):
        corpus.pairs(split).sources(np.arange(9))
    corpus.test_set()


def _refused(folder, action=_use):
    with pytest.raises(InputError) as caught:
        action(folder)
    _assert_clear(caught.value, folder)
    return str(caught.value)


@pytest.mark.usefixtures("small_shards")
def test_missing_unfinished_and_damaged_data(tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "gone"):
        assert f"trainers.prepare --output_dir={folder}" in _refused(folder)
    with at_write(monkeypatch, 6), pytest.raises(Killed):
        prepare(tmp_path / "killed")
    assert "unfinished" in _refused(tmp_path / "killed")

    def check(folder):
        PreparedCorpus(folder).validate_checksums()

    prepare(tmp_path / "made")
    folder = (tmp_path / "made").rename(tmp_path / "moved")
    _use(folder)
    check(folder)
    for name in (
        *("manifest.json", "vocabulary.model", "test.json"),
        *("train-00001.ids.npy", "dev-00000.lengths.npy"),
    ):
        path = folder / name
        content = path.read_bytes()
        # The last byte but one: that of a text is its closing bracket.
        flip_bit(path, -2)
        _refused(folder)
        _refused(folder, check)
        path.unlink()
        assert name in _refused(folder) or name == "manifest.json"
        path.write_bytes(content)
    (folder / "vocabulary.model").write_bytes(vocabulary(seed=8))
    assert "vocabulary.model" in _refused(folder)
    other = tmp_path / "other"
    prepare(other, MemoryCorpus({"train": rows(5, 1)}))
    (other / "test.json").write_text("{}")
    assert PreparedCorpus(other).test_set() is None


@pytest.mark.usefixtures("small_shards")
def test_groups_have_every_pair_once_and_mix_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(prepared_corpus, "MAX_GROUP_PAIRS", 30)
    corpus = prepare(tmp_path, MemoryCorpus({"train": rows(100, 1)}))
    every = corpus.pairs("train")
    lengths = np.stack([every.source_lengths, every.target_lengths], axis=1)
    limit = int(np.median(lengths.max(axis=1)))
    groups = corpus.groups("train")
    assert len(groups) == 4
    indices = []
    for shards in groups:
        # No two of them are neighbours.
        numbers = [int(each.name.removeprefix("train-")) for each in shards]
        assert min(np.diff(numbers)) > 1
        own = np.concatenate(
            [np.arange(14 * n, min(14 * n + 14, 100)) for n in numbers]
        )
        indices.extend(own)
        pairs = corpus.load_pairs(shards)
        np.testing.assert_array_equal(pairs.source_lengths, lengths[own, 0])
        np.testing.assert_array_equal(
            pairs.targets(np.arange(len(own))), every.targets(own)
        )
        kept = lengths[own][lengths[own].max(axis=1) <= limit]
        assert corpus.count_tokens(shards, limit).tolist() == [
            len(kept),
            *kept.sum(axis=0),
        ]
    assert sorted(indices) == [*range(100)]
