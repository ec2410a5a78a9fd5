import collections
import itertools
import os
import pathlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from trainers.data import open_corpus, tatoeba
from trainers.data.package_index import FetchError
from trainers.data.tatoeba import (
    cache_folder,
    drop_shared_sources,
    read_tatoeba_text,
    split_by_english,
    variant_key,
)


@given(st.text())
def test_the_key_is_the_documented_one(text):
    # Character by character, without the regular expression.
    folded = unicodedata.normalize("NFKC", text).casefold()
    key = "".join(c for c in folded if c.isalnum())
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert variant_key(unicodedata.normalize(form, text)) == key


# Few words and many collisions: every rule of the split comes into play.
SIDE = st.builds(
    lambda word, end, upper: (word.upper() if upper else word) + end,
    st.sampled_from("abcdefgh"),
    st.sampled_from(["", ".", "!"]),
    st.booleans(),
)
PAIRS = st.lists(st.tuples(SIDE, SIDE), unique=True)


def _keys(pairs, side=0):
    return {variant_key(pair[side]) for pair in pairs}


def _assert_disjoint(splits, side=0):
    for one, other in itertools.combinations(splits.values(), 2):
        assert not _keys(one, side) & _keys(other, side)


@given(PAIRS, st.integers(0, 4), st.randoms())
def test_no_english_variant_is_in_two_splits(pairs, held_out, random):
    splits = split_by_english(pairs, held_out)
    _assert_disjoint(splits)
    assert sorted(sum(splits.values(), [])) == sorted(pairs)
    count = len(_keys(pairs))
    assert len(_keys(splits["test"])) == min(held_out, count)
    assert len(_keys(splits["dev"])) == min(held_out, max(0, count - held_out))
    # From English, no pair is dropped.
    assert drop_shared_sources(splits) == splits
    shuffled = list(pairs)
    random.shuffle(shuffled)
    for name, part in split_by_english(shuffled, held_out).items():
        assert set(part) == set(splits[name])


@given(PAIRS, st.integers(0, 4))
def test_from_french_no_source_variant_is_in_two_splits(pairs, held_out):
    swapped = {
        name: [(french, english) for english, french in part]
        for name, part in split_by_english(pairs, held_out).items()
    }
    splits = drop_shared_sources(swapped)
    _assert_disjoint(splits)
    _assert_disjoint(splits, side=1)
    assert splits["test"] == swapped["test"]
    held_out = _keys(swapped["test"])
    for name in ("dev", "train"):
        assert _keys(set(swapped[name]) - set(splits[name])) <= held_out
        held_out |= _keys(swapped["dev"])


@pytest.fixture
def small(index, monkeypatch):
    """A corpus of four English keys; test and dev have one each."""
    # sha256 in hex begins: d 18ac, c 2e7d, b 3e23, a ca97.
    monkeypatch.setattr(
        tatoeba, "split_by_english", lambda pairs: split_by_english(pairs, 1)
    )
    lines = (
        *(("D!", "Quatre."), ("D.", "quatre un"), ("D.", "Quatre !")),
        *(("D.", "quatre"), ("C.", "Trois."), ("C.", "QUATRE")),
        *(("B.", "Deux."), ("B.", "Quatre…"), ("A.", "trois"), ("A.", "Un.")),
    )
    index.serve("".join(f"{a}\t{b}\tCC-BY\n" for a, b in lines))


def test_from_english(small):
    corpus = open_corpus("tatoeba-en-fr", None, None)
    assert (corpus.source_language, corpus.target_language) == ("en", "fr")
    # "D." has more references than "D!"; only its own count.
    test = corpus.evaluation_set("test")
    assert test.sources == ("D.",)
    assert test.references == (("quatre un", "Quatre !", "quatre"),)
    assert corpus.evaluation_set("dev").references == (("Trois.", "QUATRE"),)
    assert list(corpus.pairs("train")) == [
        *(("B.", "Deux."), ("B.", "Quatre…"), ("A.", "trois"), ("A.", "Un."))
    ]
    with pytest.raises(InputError, match="train, dev, test"):
        corpus.evaluation_set("validation")
    for part in ("tatoeba.org", "CC BY 2.0 FR", "manythings.org/anki"):
        assert part in corpus.attribution


def test_from_french(small, index):
    corpus = open_corpus("tatoeba-en-fr", "fr", None)
    # Of "Quatre.", "Quatre !" and "quatre", with one reference each, the
    # first by code point.
    expected = {"Quatre !": "D.", "quatre un": "D."}
    assert dict(corpus.pairs("test")) == expected
    # "QUATRE" is a variant of a test source.
    assert list(corpus.pairs("dev")) == [("Trois.", "C.")]
    # "Quatre…" is dropped because of test, "trois" because of dev.
    assert list(corpus.pairs("train")) == [("Deux.", "B."), ("Un.", "A.")]
    # The fingerprint changes with direction and data.
    english = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    index.serve("".join(f"{c}.\t{c}\n" for c in "abcd"))
    other = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    assert len({corpus.fingerprint(), english, other}) == 3


@pytest.mark.parametrize(
    ("source", "counts"),
    [("en", (172_192, 2_752, 2_882)), ("fr", (171_422, 2_740, 2_881))],
)
def test_the_real_corpus(source, counts):
    path = cache_folder() / tatoeba.FILE_NAME
    if not path.exists():
        pytest.skip(f"{path} is missing; open the corpus once to fetch it")
    corpus = open_corpus("tatoeba-en-fr", source, None)
    pairs = {split: list(corpus.pairs(split)) for split in corpus.splits()}
    _assert_disjoint(pairs)
    assert tuple(map(len, pairs.values())) == counts
    for split in ("dev", "test"):
        evaluation_set = corpus.evaluation_set(split)
        sources = collections.Counter(map(variant_key, evaluation_set.sources))
        assert max(sources.values()) == 1
        assert source == "fr" or len(sources) == 2_000
        for group in evaluation_set.references:
            assert len(set(group)) == len(group)


TEXT = "Go.\tVa !\tby someone\n"
ARCHIVE = "nmt-0.0.6.tar.gz"


def test_the_archive_is_fetched_once_or_when_damaged(index, tmp_path):
    index.serve(TEXT)
    assert read_tatoeba_text() == read_tatoeba_text() == TEXT
    assert index.fetched == 1
    path = index.cache / ARCHIVE
    # Nothing of it is unpacked to disk.
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]
    content = index.content
    middle = len(content) // 2
    other = bytes([content[middle] ^ 1])
    flipped = content[:middle] + other + content[middle + 1 :]
    for number, damaged in enumerate((content[:-1], b"", flipped), 2):
        path.write_bytes(damaged)
        assert read_tatoeba_text() == TEXT
        assert index.fetched == number
        assert path.read_bytes() == content


def test_a_wrong_download_is_refused_and_leaves_nothing(index, archive_of):
    index.serve(TEXT)
    content = index.content
    for wrong in (
        content[:-1] + bytes([content[-1] ^ 1]),
        archive_of("another, longer text"),
    ):
        index.content = wrong
        with pytest.raises(InputError):
            read_tatoeba_text()
        assert not index.cache.exists()


def test_errors_say_what_to_do(index, monkeypatch):
    index.serve(TEXT)

    def fail(error):
        def raise_error(*_):
            raise error

        return raise_error

    with monkeypatch.context() as patch:
        patch.setattr(
            tatoeba, "fetch_source_distribution", fail(FetchError("no route"))
        )
        with pytest.raises(InputError, match="no route") as caught:
            read_tatoeba_text()
    for part in ("KERAS_TRANSFORMER_CACHE", ARCHIVE, "text:PREFIX"):
        assert part in str(caught.value)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail(OSError(28, "No space left")))
        with pytest.raises(InputError, match="No space left"):
            read_tatoeba_text()
    assert list(index.cache.iterdir()) == []
    index.cache.rmdir()
    index.cache.write_text("a file")
    with pytest.raises(InputError, match="KERAS_TRANSFORMER_CACHE"):
        read_tatoeba_text()


def test_the_cache_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    for own, general, expected in (
        ("/own", "/general", "/own"),
        ("~/own", "", "/home/someone/own"),
        ("", "/general", "/general/keras_transformer"),
        ("", "relative", "/home/someone/.cache/keras_transformer"),
    ):
        monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", own)
        monkeypatch.setenv("XDG_CACHE_HOME", general)
        assert cache_folder() == pathlib.Path(expected)
