"""The embedded corpus: rules of its splits, its archive, package indexes."""

import collections
import hashlib
import itertools
import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.damage import flip_bit
from trainers.data import open_corpus, tatoeba
from trainers.data.tatoeba import (
    archive_path,
    drop_shared_sources,
    read_tatoeba_text,
    split_by_english,
    variant_key,
)


@settings(max_examples=30)
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


@settings(max_examples=40)
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


@settings(max_examples=40)
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


def test_the_real_corpus():
    path = archive_path()
    if not path.exists():
        pytest.skip(f"{path} is missing; open the corpus once to fetch it")
    # From French, all rules come into play.
    corpus = open_corpus("tatoeba-en-fr", "fr", None)
    pairs = {split: [*corpus.pairs(split)] for split in corpus.splits()}
    counts = {split: len(found) for split, found in pairs.items()}
    assert counts == {"train": 171_422, "dev": 2_740, "test": 2_881}
    assert not _keys(pairs["test"]) & _keys(pairs["dev"])
    test = corpus.evaluation_set("test")
    sources = collections.Counter(map(variant_key, test.sources))
    assert max(sources.values()) == 1
    for group in test.references:
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
    for number in (2, 3):
        if number == 2:
            path.write_bytes(b"")
        else:
            flip_bit(path)
        assert read_tatoeba_text() == TEXT
        assert index.fetched == number
        assert path.read_bytes() == content
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="KERAS_TRANSFORMER_CACHE"):
        read_tatoeba_text()


def test_pips_files_and_variables_are_read(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    path = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    for name in ("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    path.write_text(
        "[global]\nindex-url = https://file.example/simple\ncert = /c\n"
        "[install]\ncert = /a\n"
    )
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://b.example/simple")
    expected = {
        "index-url": "https://file.example/simple",
        "extra-index-url": "https://b.example/simple",
        "cert": "/a",
    }
    assert expected.items() <= tatoeba.read_pip_options().items()


def test_the_first_index_with_the_archive_is_used(index, monkeypatch, tmp_path):
    index.serve(TEXT)
    monkeypatch.undo()
    digest = hashlib.sha256(index.content).hexdigest()
    monkeypatch.setattr(tatoeba, "SHA256", digest)
    monkeypatch.setattr(tatoeba, "SIZE", len(index.content))
    page = tmp_path / "simple/nmt/index.html"
    page.parent.mkdir(parents=True)
    names = ("nmt-0.0.7.tar.gz", "nmt-0.0.6-py3-none-any.whl", ARCHIVE)
    page.write_text("".join(f'<a href="{name}">{name}</a>' for name in names))
    archive = page.parent / ARCHIVE
    archive.write_bytes(index.content)
    # Port 9 of this machine: refused at once, and nothing leaves it.
    options = {
        "index-url": "http://someone:secret@127.0.0.1:9/simple",
        "extra-index-url": (tmp_path / "simple").as_uri(),
    }
    monkeypatch.setattr(tatoeba, "read_pip_options", lambda: options)
    assert tatoeba.fetch_archive() == index.content
    archive.write_bytes(b"another")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9") as caught:
        tatoeba.fetch_archive()
    message = str(caught.value)
    for part in (options["extra-index-url"], ARCHIVE, "CACHE", "text:PREFIX"):
        assert part in message
    assert "secret" not in message and "\n" not in message
