import copy
import dataclasses
import errno
import hashlib
import json
import pathlib
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.data.manifest import (
    MANIFEST_FILE,
    DataSource,
    Manifest,
    Split,
    read_manifest,
    validate_vocabulary,
    write_manifest,
)
from trainers.data.shards import Shard, TokenizedChunk

SOURCE = DataSource(
    dataset="text:toy",
    source_language="en",
    target_language="xx",
    fingerprint="0123456789abcdef",
    vocabulary_size=64,
    max_tokens=100,
)
SHARD = Shard("train-00000", 5, 3, 12, 77, 78)
SPLIT = Split((SHARD,), (0, 2, 1), (0, 0, 1, 2))
TEXT = Manifest(SOURCE, "ab" * 32, "cd" * 32, {"train": SPLIT}, True)
# With the fields that are omitted for text.
TREES = dataclasses.replace(
    TEXT,
    splits={
        "train": dataclasses.replace(
            SPLIT,
            num_unencodable=1,
            first_unencodable="x",
            unknown=((1, "a"), (0, "")),
        )
    },
    symbols_sha256="ef" * 32,
)

COUNT = st.integers(0, 2**40)
STRING = st.text(st.characters(codec="utf-8"), max_size=8)
SHARDS = st.builds(
    Shard,
    st.from_regex("[a-z]{1,5}-[0-9]{5}", fullmatch=True),
    *[COUNT] * 5,
)
SPLITS = st.builds(
    Split,
    st.lists(SHARDS, max_size=3).map(tuple),
    *[st.lists(COUNT, max_size=4).map(tuple)] * 2,
    COUNT,
    STRING,
    st.tuples(*[st.tuples(COUNT, STRING)] * 2),
)
MANIFESTS = st.builds(
    Manifest,
    st.builds(
        DataSource,
        dataset=STRING,
        source_language=STRING,
        target_language=STRING,
        fingerprint=STRING,
        vocabulary_size=COUNT,
        max_tokens=COUNT,
    ),
    STRING,
    STRING,
    st.dictionaries(STRING, SPLITS, max_size=3),
    st.booleans(),
    STRING,
)


@settings(max_examples=40)
@given(MANIFESTS)
def test_what_is_written_is_read(manifest):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "new")
        assert read_manifest(folder) is None
        write_manifest(folder, manifest)
        assert [path.name for path in folder.iterdir()] == [MANIFEST_FILE]
        assert read_manifest(folder) == manifest


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))),
            st.integers(0, 2),
        )
    )
)
def test_a_split_counts_the_pairs_of_its_shards(shards):
    split, firsts, lines = Split(), [], 0
    for number, (dropped, pairs, unencodable) in enumerate(shards):
        lengths = np.array(pairs, np.int64).reshape(-1, 2)
        read = len(pairs) + dropped + unencodable
        shard = Shard(f"train-{number}", read, len(pairs), 0, 0, 0)
        reasons = [(index, f"{number}") for index in range(unencodable)]
        ids = np.zeros(0, np.int32)
        chunk = TokenizedChunk(read, ids, lengths, reasons)
        split = split.with_shard(shard, chunk)
        firsts += [f"line {lines + 1}: {number}"] * (unencodable > 0)
        lines += read
    every = [pair for _, pairs, _ in shards for pair in pairs]
    assert split.num_pairs == len(every)
    assert split.num_too_long == sum(dropped for dropped, _, _ in shards)
    assert split.num_unencodable == sum(
        unencodable for _, _, unencodable in shards
    )
    assert split.first_unencodable == (firsts[0] if firsts else "")
    assert split.num_read == lines
    assert split.source_tokens == sum(source for source, _ in every)
    assert split.target_tokens == sum(target for _, target in every)
    for side, counts in enumerate(
        (split.source_length_counts, split.target_length_counts)
    ):
        longest = max((pair[side] for pair in every), default=-1)
        assert counts == tuple(
            sum(pair[side] == length for pair in every)
            for length in range(longest + 1)
        )


def _content(folder, manifest=TEXT):
    write_manifest(folder, manifest)
    return json.loads((folder / MANIFEST_FILE).read_text())


def test_its_fields(tmp_path):
    content = _content(tmp_path)
    assert sorted(content) == [
        *("complete", "format", "source", "splits", "test_sha256"),
        "vocabulary_sha256",
    ]
    split = content["splits"]["train"]
    shards, lengths = (
        split.pop("shards"),
        ("source_length_counts", "target_length_counts"),
    )
    assert shards == [dataclasses.asdict(SHARD)]
    assert [split.pop(name) for name in lengths] == [[0, 2, 1], [0, 0, 1, 2]]
    assert split == {
        "num_pairs": 3,
        "num_too_long": 2,
        "source_tokens": 2 * 1 + 1 * 2,
        "target_tokens": 1 * 2 + 2 * 3,
    }
    more = set(_content(tmp_path, TREES)["splits"]["train"])
    assert more >= {"num_unencodable", "first_unencodable", "unknown"}


def _refused(content):
    if not isinstance(content, bytes):
        content = content.encode()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / MANIFEST_FILE).write_bytes(content)
        with pytest.raises(InputError, match=MANIFEST_FILE) as caught:
            read_manifest(folder)
    assert "\n" not in str(caught.value)


DERIVED = ("num_pairs", "num_too_long", "source_tokens", "target_tokens")


def _places(content, above=()):
    """The path of every value that is read."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if key in DERIVED and len(above) == 2:
            continue
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*above, key))


def _inner(content, place):
    for key in place[:-1]:
        content = content[key]
    return content


OTHERS = (None, True, -1, 1.5, "../x", "", [], [[]], {}, {"a": 1})


@pytest.mark.parametrize("manifest", [TEXT, TREES], ids=["text", "trees"])
def test_no_value_may_be_of_another_type_or_missing(tmp_path, manifest):
    content = _content(tmp_path, manifest)
    optional = (
        "symbols_sha256",
        "num_unencodable",
        "first_unencodable",
        "unknown",
    )
    checked = 0
    for place in _places(content):
        for other in OTHERS:
            changed = copy.deepcopy(content)
            inner = _inner(changed, place)
            same = type(other) is type(inner[place[-1]]) and other != -1
            # True equals 1.
            if same or place == ("format",) and other is True:
                continue
            inner[place[-1]] = other
            _refused(json.dumps(changed))
            checked += 1
        name = place[-1]
        if isinstance(name, str) and name not in (*optional, "train"):
            changed = copy.deepcopy(content)
            del _inner(changed, place)[name]
            _refused(json.dumps(changed))
    assert checked > 100


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..", "", "a/b", "a\\b", "a\0b"]
)
def test_a_shards_name_cannot_lead_out_of_the_folder(tmp_path, name):
    content = _content(tmp_path)
    content["splits"]["train"]["shards"][0]["name"] = name
    _refused(json.dumps(content))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | STRING,
    lambda inner: st.lists(inner) | st.dictionaries(STRING, inner),
    max_leaves=8,
)


@given(JSON.map(json.dumps) | STRING)
def test_any_other_text_is_refused(text):
    _refused(text)


@pytest.mark.parametrize(
    "content", [b"\xff", b"\xef\xbb\xbf{}", b"[" * 99_999, b'{"a":1' * 9_999]
)
def test_any_other_bytes_are_refused(content):
    _refused(content)


def test_a_folder_and_a_full_disk(tmp_path, monkeypatch):
    (tmp_path / "folder" / MANIFEST_FILE).mkdir(parents=True)
    with pytest.raises(InputError, match=MANIFEST_FILE):
        read_manifest(tmp_path / "folder")
    write_manifest(tmp_path, TEXT)

    def full(self, *arguments, **options):
        self.write_bytes(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_manifest(tmp_path, dataclasses.replace(TEXT, complete=False))
    assert read_manifest(tmp_path) == TEXT


def test_another_vocabulary_is_refused():
    digest = hashlib.sha256(b"ours").hexdigest()
    manifest = dataclasses.replace(TEXT, vocabulary_sha256=digest)
    validate_vocabulary("data", manifest, b"ours")
    validate_vocabulary("data", manifest, None)
    with pytest.raises(InputError, match="another vocabulary"):
        validate_vocabulary("data", manifest, b"theirs")
