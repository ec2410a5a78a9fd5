"""Corpora, vocabularies and folders that cannot be prepared."""

import re

import pytest

from export.errors import InputError
from tests.trainers.prepared.interruptions import Killed, at_write
from tests.trainers.prepared.memory_corpus import (
    MemoryCorpus,
    assert_refused,
    contents,
    prepare,
    rows,
    splits,
    vocabulary,
)

pytestmark = pytest.mark.usefixtures("small_shards")
CHANGES = {
    "fingerprint": "g",
    "dataset": "other",
    "vocabulary_size": 60,
    "max_tokens": 50,
}


def _changed(name):
    """The arguments of `prepare` with one fact changed."""
    if name == "fingerprint":
        corpus = MemoryCorpus(splits(train=rows(9, 5)), fingerprint="g")
        return {"corpus": corpus}
    if name == "dataset":
        return {"corpus": MemoryCorpus(splits(), name="other")}
    if name == "vocabulary_size":
        return {"vocabulary_size": 60, "vocabulary": vocabulary(size=60)}
    return {name: CHANGES[name]}


@pytest.mark.parametrize("name", CHANGES)
def test_another_source_is_refused_where_all_is_done(tmp_path, name):
    prepared = prepare(tmp_path)
    before = contents(tmp_path)
    there = getattr(prepared.manifest.source, name)
    message = f"holds .* {name}={there}, not {CHANGES[name]};"
    if name == "fingerprint":
        message = "was prepared: its fingerprint was f and is g; restore it"
    assert_refused(
        f"{re.escape(str(tmp_path))} {message}",
        tmp_path,
        **_changed(name),
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("number", [1, 10])
def test_another_source_is_begun_anew_where_it_is_unfinished(
    tmp_path, monkeypatch, name, number
):
    with at_write(monkeypatch, number), pytest.raises(Killed):
        prepare(tmp_path / "data")
    prepare(tmp_path / "data", **_changed(name))
    prepare(tmp_path / "fresh", **_changed(name))
    assert contents(tmp_path / "data") == contents(tmp_path / "fresh")


def test_a_vocabulary_of_another_size_is_refused(tmp_path):
    assert_refused(
        "has 64 pieces, not vocabulary_size=60; use --set=vocabulary_size=64",
        tmp_path / "data",
        vocabulary_size=60,
    )
    assert contents(tmp_path) == {}


def test_a_vocabulary_that_is_none_is_refused(tmp_path):
    assert_refused(
        "vocabulary cannot be used: This is not a SentencePiece model",
        tmp_path / "data",
        vocabulary=b"not a vocabulary",
    )
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("number", [1, 99])
def test_another_vocabulary_than_that_of_the_data_is_refused(
    tmp_path, monkeypatch, number
):
    try:
        with at_write(monkeypatch, number):
            prepare(tmp_path)
    except Killed:
        assert number == 1
    before = contents(tmp_path)
    other = vocabulary(seed=8)
    assert other != vocabulary()
    assert_refused("another vocabulary than", tmp_path, vocabulary=other)
    assert contents(tmp_path) == before


def _broken_after(pairs):
    """A split whose last line cannot be read."""

    def iterate():
        yield from pairs
        raise InputError("Line 7 of x.en is not UTF-8.")

    return iterate


@pytest.mark.parametrize("split", ["train", "dev", "test"])
@pytest.mark.parametrize("given", [True, False])
def test_a_broken_corpus_leaves_nothing(tmp_path, split, given):
    corpus = MemoryCorpus(splits(**{split: _broken_after(splits()[split])}))
    assert_refused(
        "Line 7 of x.en is not UTF-8",
        tmp_path / "new" / "data",
        corpus,
        vocabulary=vocabulary() if given else None,
    )
    assert contents(tmp_path) == {}
    assert not (tmp_path / "new").exists()


def test_a_broken_corpus_leaves_what_else_was_there(tmp_path):
    (tmp_path / "notes").write_bytes(b"mine")
    corpus = MemoryCorpus(splits(train=_broken_after(rows(30, 1))))
    assert_refused("Line 7", tmp_path, corpus)
    assert contents(tmp_path) == {"notes": b"mine"}


def test_no_folder_can_be_there(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert_refused("file/data", tmp_path / "file" / "data")
    assert_refused("File name too long", tmp_path / ("m" * 300))
    assert contents(tmp_path) == {"file": b""}


def test_a_corpus_without_train(tmp_path):
    corpus = MemoryCorpus({"dev": rows(5, 1)})
    for given in (vocabulary(), None):
        assert_refused(
            "has no 'train' split", tmp_path / "data", corpus, vocabulary=given
        )
    assert contents(tmp_path) == {}
