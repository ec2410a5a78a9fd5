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
    parse_pairs,
    read_tatoeba_text,
    split_by_english,
    variant_key,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Go.", "go!"),
        ("It’s 5 o'clock", "ITS 5 OCLOCK…"),
        ("Straße", "STRASSE"),
        ("ﬁne", "fine"),
        ("caf\u00e9", "cafe\u0301"),
        ("Va\u202f!", "va !"),
        ("snake_case", "snakecase"),
    ],
)
def test_variants_have_the_same_key(one, other):
    assert variant_key(one) == variant_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("Go.", "Do."), ("10", "100"), ("ou", "où")]
)
def test_other_sentences_have_other_keys(one, other):
    assert variant_key(one) != variant_key(other)


@given(st.text())
def test_the_key_is_the_documented_one(text):
    # Character by character, without the regular expression.
    folded = unicodedata.normalize("NFKC", text).casefold()
    key = "".join(c for c in folded if c.isalnum())
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert variant_key(unicodedata.normalize(form, text)) == key


def test_pairs_are_distinct_up_to_white_space():
    text = (
        "Go.\tVa !\tCC-BY\n"
        "Go.\tVa\u202f!\tCC-BY\n"
        "Go.\tVas-y.\tCC-BY\n"
        " Go. \tVa !\n"
        "?!\tQuoi\tCC-BY\n"
        "What\t…\tCC-BY\n"
        "a\x85b\tc\u2028d\tCC-BY\n"
    )
    assert parse_pairs(text) == [
        ("Go.", "Va !"),
        ("Go.", "Vas-y."),
        ("a b", "c d"),
    ]


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


@given(PAIRS, st.integers(0, 4), st.randoms())
def test_no_english_variant_is_in_two_splits(pairs, held_out, random):
    splits = split_by_english(pairs, held_out)
    keys = {name: _keys(part) for name, part in splits.items()}
    for one, other in itertools.combinations(keys.values(), 2):
        assert not one & other
    assert sorted(sum(splits.values(), [])) == sorted(pairs)
    count = len(_keys(pairs))
    assert len(keys["test"]) == min(held_out, count)
    assert len(keys["dev"]) == min(held_out, max(0, count - held_out))
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
    kept = drop_shared_sources(swapped)
    for one, other in itertools.combinations(kept.values(), 2):
        assert not _keys(one) & _keys(other)
        assert not _keys(one, 1) & _keys(other, 1)
    assert kept["test"] == swapped["test"]
    for name in ("dev", "train"):
        held = _keys(swapped["test"])
        if name == "train":
            held |= _keys(swapped["dev"])
        assert _keys(set(swapped[name]) - set(kept[name])) <= held


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
    assert corpus.splits() == ("train", "dev", "test")
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


def test_from_french(small):
    corpus = open_corpus("tatoeba-en-fr", "fr", None)
    # Of "Quatre.", "Quatre !" and "quatre", with one reference each, the
    # first by code point.
    expected = {"Quatre !": "D.", "quatre un": "D."}
    assert dict(corpus.pairs("test")) == expected
    # "QUATRE" is a variant of a test source.
    assert list(corpus.pairs("dev")) == [("Trois.", "C.")]
    # "Quatre…" is dropped because of test, "trois" because of dev.
    assert list(corpus.pairs("train")) == [("Deux.", "B."), ("Un.", "A.")]


def test_the_fingerprint_follows_data_and_direction(small, index):
    first = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    assert first == open_corpus("tatoeba-en-fr", None, None).fingerprint()
    back = open_corpus("tatoeba-en-fr", "fr", "en").fingerprint()
    index.serve("".join(f"{c}.\t{c}\n" for c in "abcd"))
    other = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    assert len({first, back, other}) == 3


@pytest.mark.parametrize(("source", "target"), [("de", None), ("en", "en")])
def test_languages_are_refused_before_anything_is_fetched(
    index, source, target
):
    with pytest.raises(InputError):
        open_corpus("tatoeba-en-fr", source, target)
    assert index.fetched == 0


@pytest.mark.parametrize("source", ["en", "fr"])
def test_the_real_corpus(source):
    path = cache_folder() / tatoeba.FILE_NAME
    if not path.exists():
        pytest.skip(f"{path} is missing; open the corpus once to fetch it")
    corpus = open_corpus("tatoeba-en-fr", source, None)
    pairs = {split: list(corpus.pairs(split)) for split in corpus.splits()}
    for one, other in itertools.combinations(pairs.values(), 2):
        assert not _keys(one) & _keys(other)
    assert {split: len(part) for split, part in pairs.items()} == (
        {"train": 172_192, "dev": 2_752, "test": 2_882}
        if source == "en"
        else {"train": 171_422, "dev": 2_740, "test": 2_881}
    )
    for split in ("dev", "test"):
        evaluation_set = corpus.evaluation_set(split)
        sources = collections.Counter(map(variant_key, evaluation_set.sources))
        assert max(sources.values()) == 1
        assert source == "fr" or len(sources) == 2_000
        for group in evaluation_set.references:
            assert len(set(group)) == len(group)


TEXT = "Go.\tVa !\tby someone\n"
ARCHIVE = "nmt-0.0.6.tar.gz"


def test_the_archive_is_fetched_once(index, capsys, tmp_path, monkeypatch):
    index.serve(TEXT)
    monkeypatch.chdir(tmp_path)
    assert read_tatoeba_text() == TEXT
    assert read_tatoeba_text() == TEXT
    assert index.fetched == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    # Nothing of it is unpacked to disk.
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [ARCHIVE]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_archive_is_fetched_again(index, capsys, damage):
    index.serve(TEXT)
    index.cache.mkdir()
    path = index.cache / ARCHIVE
    data = bytearray(index.content)
    data[len(data) // 2] ^= damage == "flipped"
    ends = {"truncated": -1, "empty": 0}
    path.write_bytes(data[: ends.get(damage)])
    assert read_tatoeba_text() == TEXT
    assert index.fetched == 1
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == index.content


@pytest.mark.parametrize("change", ["hash", "size"])
def test_a_wrong_download_is_refused_and_leaves_nothing(
    index, archive_of, change
):
    index.serve(TEXT)
    index.content = {
        "hash": index.content[:-1] + bytes([index.content[-1] ^ 1]),
        "size": archive_of("another, longer text"),
    }[change]
    with pytest.raises(InputError):
        read_tatoeba_text()
    assert not index.cache.exists()


def test_what_goes_wrong_names_the_way_out(index, monkeypatch):
    index.serve(TEXT)

    def fail(*_):
        raise FetchError("index: no route")

    with monkeypatch.context() as patch:
        patch.setattr(tatoeba, "fetch_source_distribution", fail)
        with pytest.raises(InputError) as caught:
            read_tatoeba_text()
    for part in ("no route", "KERAS_TRANSFORMER_CACHE", ARCHIVE, "text:PREFIX"):
        assert part in str(caught.value)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(InputError, match="No space left"):
            read_tatoeba_text()
    assert list(index.cache.iterdir()) == []
    index.cache.rmdir()
    index.cache.write_text("a file")
    with pytest.raises(InputError, match="KERAS_TRANSFORMER_CACHE"):
        read_tatoeba_text()


@pytest.mark.parametrize(
    ("own", "general", "expected"),
    [
        ("/own", "/general", "/own"),
        ("~/own", "", "/home/someone/own"),
        ("", "/general", "/general/keras_transformer"),
        ("", "relative", "/home/someone/.cache/keras_transformer"),
    ],
)
def test_the_cache_folder(monkeypatch, own, general, expected):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("KERAS_TRANSFORMER_CACHE", own)
    monkeypatch.setenv("XDG_CACHE_HOME", general)
    assert cache_folder() == pathlib.Path(expected)
