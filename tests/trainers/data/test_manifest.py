import copy
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
    write_manifest,
)
from trainers.data.shards import Shard, TokenizedChunk

SHARD = Shard("train-00000", 5, 3, 12, 77, 78)
SPLIT = Split((SHARD,), 7, 9, 1, "x", ((1, "a"), (0, "")))
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
    {"train": SPLIT},
    True,
    "ef" * 32,
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
    *[COUNT] * 3,
    STRING,
    st.tuples(*[st.tuples(COUNT, STRING)] * 2),
)
MANIFESTS = st.builds(
    Manifest,
    st.just(MANIFEST.source),
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


LENGTH = st.integers(0, 9)
PAIRS = st.lists(st.tuples(LENGTH, LENGTH))


@given(st.lists(st.tuples(LENGTH, PAIRS, st.integers(0, 2))))
def test_a_split_counts_the_pairs_of_its_shards(shards):
    split, firsts, lines = Split(), [], 0
    for number, (too_long, pairs, unencodable) in enumerate(shards):
        read = len(pairs) + too_long + unencodable
        chunk = TokenizedChunk(
            read,
            np.zeros(0, np.int32),
            np.array(pairs, np.int64).reshape(-1, 2),
            [(index, f"{number}") for index in range(unencodable)],
        )
        shard = Shard(f"train-{number}", read, len(pairs), 0, 0, 0)
        split = split.with_shard(shard, chunk)
        firsts += [f"line {lines + 1}: {number}"] * (unencodable > 0)
        lines += read
    every = [pair for _, pairs, _ in shards for pair in pairs]
    assert (split.num_read, split.num_pairs) == (lines, len(every))
    assert split.num_too_long == sum(count for count, _, _ in shards)
    assert split.num_unencodable == sum(count for _, _, count in shards)
    assert split.first_unencodable == (firsts[0] if firsts else "")
    assert split.source_tokens == sum(source for source, _ in every)
    assert split.target_tokens == sum(target for _, target in every)


def _refused(content):
    content = content if isinstance(content, bytes) else content.encode()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / MANIFEST_FILE).write_bytes(content)
        with pytest.raises(InputError, match=MANIFEST_FILE) as caught:
            read_manifest(folder)
    assert "\n" not in str(caught.value)


def _places(content, above=()):
    """The path of every value."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*above, key))


def test_no_value_may_be_of_another_type_or_missing(tmp_path):
    write_manifest(tmp_path, MANIFEST)
    content = json.loads((tmp_path / MANIFEST_FILE).read_text())
    checked = 0
    for *above, last in _places(content):
        for other in (None, True, -1, 1.5, "../x", "", [], [[]], {}, {"a": 1}):
            changed = inner = copy.deepcopy(content)
            for key in above:
                inner = inner[key]
            same = type(other) is type(inner[last]) and other != -1
            # True equals 1, and a name of another split is one.
            if same or last == "format" and other is True:
                continue
            inner[last] = other
            _refused(json.dumps(changed))
            checked += 1
        if isinstance(last, str) and last != "train":
            del inner[last]
            _refused(json.dumps(changed))
    assert checked > 100


def test_shard_names_that_leave_the_folder_and_other_files_are_refused(
    tmp_path,
):
    write_manifest(tmp_path, MANIFEST)
    content = json.loads((tmp_path / MANIFEST_FILE).read_text())
    for name in ("../../etc/passwd", "/etc/passwd", "..", "", "a\\b", "a\0b"):
        content["splits"]["train"]["shards"][0]["name"] = name
        _refused(json.dumps(content))
    for other in (
        *(b"", b"\xff", b"\xef\xbb\xbf{}", b"null", b"[1]", b'"a"', b"1e999"),
        *(b"[" * 99_999, b'{"a":1' * 9_999),
    ):
        _refused(other)
