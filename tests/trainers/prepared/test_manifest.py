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

from export.errors import InputError
from trainers.prepared.manifest import (
    FILE,
    Manifest,
    Source,
    Split,
    read_manifest,
    validate_vocabulary,
    write_manifest,
)
from trainers.prepared.shards import Shard

SOURCE = Source(
    dataset="text:toy",
    source_language="en",
    target_language="xx",
    fingerprint="0123456789abcdef",
    vocabulary_size=64,
    max_tokens=100,
)
SHARD = Shard("train-00000", 5, 3, 12, 77, 78)
SPLIT = Split((SHARD,), (0, 2, 1), (0, 0, 1, 2))
WHOLE = Manifest(SOURCE, "ab" * 32, "cd" * 32, {"train": SPLIT}, True)

COUNT = st.integers(0, 2**40)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
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
    TEXT,
)
MANIFESTS = st.builds(
    Manifest,
    st.builds(
        Source,
        dataset=TEXT,
        source_language=TEXT,
        target_language=TEXT,
        fingerprint=TEXT,
        vocabulary_size=COUNT,
        max_tokens=COUNT,
    ),
    TEXT,
    TEXT,
    st.dictionaries(TEXT, SPLITS, max_size=3),
    st.booleans(),
    TEXT,
)


def _read(text):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / FILE).write_bytes(
            text if isinstance(text, bytes) else text.encode()
        )
        return read_manifest(folder)


def _refused(text):
    with pytest.raises(InputError) as caught:
        _read(text)
    message = str(caught.value)
    assert "\n" not in message
    assert f"{FILE} is not a manifest of prepared data" in message
    return message


# With what those of text leave out.
TREES = dataclasses.replace(
    WHOLE,
    splits={"train": dataclasses.replace(SPLIT, unseen=1, first_unseen="x")},
    symbols_sha256="ef" * 32,
)


@pytest.fixture
def content(tmp_path):
    """A good manifest as JSON."""
    write_manifest(tmp_path, WHOLE)
    return json.loads((tmp_path / FILE).read_text())


@settings(max_examples=40)
@given(MANIFESTS)
def test_what_is_written_is_read(manifest):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "new")
        write_manifest(folder, manifest)
        assert [path.name for path in folder.iterdir()] == [FILE]
        assert read_manifest(folder) == manifest


def test_without_one_there_is_none(tmp_path):
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "gone") is None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))),
            st.integers(0, 2),
        )
    )
)
def test_a_split_counts_what_is_in_its_shards(shards):
    split, firsts, lines = Split(), [], 0
    for number, (dropped, pairs, unseen) in enumerate(shards):
        lengths = np.array(pairs, np.int64).reshape(-1, 2)
        read, tokens = len(pairs) + dropped + unseen, int(lengths.sum())
        shard = Shard(f"train-{number:05d}", read, len(pairs), tokens, 0, 0)
        reasons = [(place, f"{number}") for place in range(unseen)]
        split = split.with_shard(shard, lengths, reasons)
        firsts += [f"line {lines + 1}: {number}"] * (unseen > 0)
        lines += read
    every = [pair for _, pairs, _ in shards for pair in pairs]
    assert split.pairs == len(every)
    assert split.dropped == sum(dropped for dropped, _, _ in shards)
    assert split.unseen == sum(unseen for _, _, unseen in shards)
    assert split.first_unseen == (firsts[0] if firsts else "")
    assert split.read == split.pairs + split.dropped + split.unseen
    assert split.source_tokens == sum(source for source, _ in every)
    assert split.target_tokens == sum(target for _, target in every)
    for side, counts in enumerate((split.source_lengths, split.target_lengths)):
        longest = max((pair[side] for pair in every), default=-1)
        assert counts == tuple(
            sum(pair[side] == length for pair in every)
            for length in range(longest + 1)
        )


def test_people_find_the_counts_in_it(content):
    facts = {
        "pairs": 3,
        "dropped": 2,
        "source_tokens": 2 * 1 + 1 * 2,
        "target_tokens": 1 * 2 + 2 * 3,
    }
    assert facts.items() <= content["splits"]["train"].items()


def test_a_split_is_put_in_beside_the_others():
    both = WHOLE.with_split("dev", Split())
    assert both.splits == {"train": SPLIT, "dev": Split()}
    assert both.with_split("train", Split()).splits["train"] == Split()
    assert WHOLE.splits == {"train": SPLIT}


DERIVED = ("pairs", "dropped", "source_tokens", "target_tokens")


def _places(content, above=()):
    """The path of every value, but for those that follow from others."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if key in DERIVED and len(above) == 2:
            continue
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*above, key))


def _changed(content, place, value):
    content = copy.deepcopy(content)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(content)


def _without(content, place):
    content = copy.deepcopy(content)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return json.dumps(content)


OTHERS = (None, True, -1, 1.5, "../x", "", [], [[]], {}, {"a": 1})


@pytest.mark.parametrize("manifest", [WHOLE, TREES], ids=["text", "trees"])
def test_no_value_may_be_of_another_type(tmp_path, manifest):
    write_manifest(tmp_path, manifest)
    content = json.loads((tmp_path / FILE).read_text())
    checked = 0
    for place in _places(content):
        if place == ("format",):
            continue
        value = content
        for key in place:
            value = value[key]
        for other in OTHERS:
            if type(other) is type(value) and other != -1:
                continue
            _refused(_changed(content, place, other))
            checked += 1
    assert checked > 100


def test_no_value_may_be_missing(content):
    for place in _places(content):
        if isinstance(place[-1], str) and place != ("splits", "train"):
            _refused(_without(content, place))


def test_another_format_is_named(content):
    assert "its format is 2" in _refused(_changed(content, ("format",), 2))


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "a\0b"],
)
def test_a_shards_name_cannot_lead_out_of_the_folder(content, name):
    place = ("splits", "train", "shards", 0, "name")
    assert "is no name of a shard" in _refused(_changed(content, place, name))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(JSON.map(json.dumps) | TEXT)
def test_any_other_text_is_refused(text):
    _refused(text)


@pytest.mark.parametrize(
    "content", [b"\xff", b"\xef\xbb\xbf{}", b"[" * 99_999, b'{"a":1' * 9_999]
)
def test_any_other_bytes_are_refused(content):
    _refused(content)


def test_a_folder_in_place_of_it_is_refused(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(InputError, match="is not a manifest"):
        read_manifest(tmp_path)


def test_a_full_disk_leaves_the_one_before(tmp_path, monkeypatch):
    write_manifest(tmp_path, WHOLE)

    def full(self, *arguments, **options):
        self.write_bytes(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_text", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_manifest(tmp_path, dataclasses.replace(WHOLE, complete=False))
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert read_manifest(tmp_path) == WHOLE


def test_another_vocabulary_is_refused():
    digest = hashlib.sha256(b"ours").hexdigest()
    manifest = dataclasses.replace(WHOLE, vocabulary_sha256=digest)
    validate_vocabulary("data", manifest, b"ours")
    validate_vocabulary("data", manifest, None)
    with pytest.raises(InputError, match="in data were .* another vocab"):
        validate_vocabulary("data", manifest, b"theirs")
