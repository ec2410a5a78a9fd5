"""Text that both sides of some training pairs have in common."""

import collections
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.tokenizers.python_tokenizers import has_byte_fallback
from tests.trainers import cipher
from tests.trainers.data.memory_corpus import (
    SIZE,
    MemoryCorpus,
    assert_refused,
    byte_vocabulary,
    contents,
    decoded,
    prepare,
    splits,
)
from trainers.augmentation.copies import add_copies
from trainers.data import codecs
from trainers.data.vocabulary import make_normalizer

WORDS = st.lists(st.sampled_from(["Tom", "ba", "ka,", "5", "é"]), min_size=1)
SENTENCES = WORDS.map(" ".join)
PAIRS = [
    (f"{s} {i}", f"{t} {i}") for i, (s, t) in enumerate(cipher.sentences(2000))
]


def _added(text, changed):
    """The words that `changed` has more than `text`, in order."""
    missing, added = text.split(" "), []
    for word in changed.split(" "):
        if missing and word == missing[0]:
            del missing[0]
        else:
            added.append(word)
    assert not missing
    return added


@settings(max_examples=50)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), max_size=4))
def test_both_sides_get_the_same_words_in_the_same_order(pairs):
    for pair, changed in zip(pairs, add_copies(pairs, 1.0), strict=True):
        items = _added(pair[0], changed[0])
        assert items == _added(pair[1], changed[1])
        assert 1 <= len(items) <= 4
        # A pair's items do not depend on other pairs.
        assert [changed] == [*add_copies([pair], 1.0)]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_the_rate_is_the_share_of_changed_pairs(rate):
    changed = [*add_copies(PAIRS, rate)]
    count = sum(a != b for a, b in zip(PAIRS, changed, strict=True))
    assert count == pytest.approx(rate * len(PAIRS), rel=0.2)
    # The same pairs change, and more at a higher rate.
    for pair, one, other in zip(PAIRS, changed, add_copies(PAIRS, 0.6)):
        assert one in (pair, other)


def test_words_that_are_the_same_on_both_sides_keep_their_neighbours():
    pairs = [(f"a{i} b Tom g", f"c Tom d e f{i}") for i in range(300)]
    found = 0
    for pair, changed in zip(pairs, add_copies(pairs, 1.0)):
        source, target = (side.split(" ") for side in changed)
        for one in _added(pair[0], changed[0]):
            if len(one) > 3 and source[source.index(one) - 1] == "Tom":
                assert target[target.index(one) - 1] == "Tom"
                found += 1
    assert found > 30


def test_items_are_of_many_kinds():
    added = [
        word
        for pair, changed in zip(PAIRS, add_copies(PAIRS, 1.0))
        for word in _added(pair[0], changed[0])
    ]
    kinds = collections.Counter()
    for word in added:
        kinds["address"] += "." in word and not word[0].isdigit()
        kinds["number"] += word[0].isdigit()
        kinds["emoji"] += unicodedata.category(word[0]) == "So"
        kinds["letters"] += word[0].isalpha() and not word.isascii()
        kinds["name"] += word.isascii() and word.isalpha()
    assert len(kinds) == 5
    assert min(kinds.values()) > len(added) / 10
    assert len({*added}) > 0.7 * len(added)


def test_only_training_pairs_are_changed(tmp_path):
    settings = byte_vocabulary() | {"max_tokens": 200}
    for name, rate in {"plain": 0.0, "copied": 0.5}.items():
        prepared = prepare(tmp_path / name, copy_rate=rate, **settings)
    assert prepared.manifest.source.copy_rate == 0.5
    before, after = contents(tmp_path / "plain"), contents(tmp_path / "copied")
    assert {name for name in before if before[name] != after[name]} == {
        "manifest.json",
        "train-00000.ids.npy",
        "train-00000.lengths.npy",
    }
    expected = [*add_copies(MemoryCorpus(splits()).pairs("train"), 0.5)]
    normalizer = make_normalizer("nmt_nfkc")
    assert decoded(prepared, "train") == [
        tuple(
            normalizer.normalize(side).replace("\u2581", " ").strip()
            for side in pair
        )
        for pair in expected
    ]
    train = prepared.manifest.splits["train"]
    assert train.source.num_unknown == train.target.num_unknown == 0


def test_a_vocabulary_without_bytes_gets_no_copies(tmp_path):
    for name, rate in {"plain": 0.0, "copied": 0.5}.items():
        prepare(tmp_path / name, copy_rate=rate)
    before, after = contents(tmp_path / "plain"), contents(tmp_path / "copied")
    del before["manifest.json"], after["manifest.json"]
    assert before == after


@pytest.mark.parametrize(
    ("least", "choice", "has_bytes"),
    [
        (8000, "auto", False),
        (8000, "on", True),
        (64, "auto", True),
        (64, "off", False),
    ],
)
def test_large_vocabularies_have_byte_tokens(
    tmp_path, monkeypatch, least, choice, has_bytes
):
    monkeypatch.setattr(codecs, "_MIN_BYTE_FALLBACK_SIZE", least)
    size = SIZE + 256 * has_bytes
    settings = {"byte_fallback": choice, "vocabulary_size": size}
    prepared = prepare(tmp_path, vocabulary=None, **settings)
    assert has_byte_fallback(prepared.vocabulary) == has_bytes
    other = {"on": "off", "off": "on"}.get(choice, "on")
    assert_refused(
        "byte_fallback", tmp_path, **settings | {"byte_fallback": other}
    )
    if choice != "auto":
        settings |= {"byte_fallback": other, "vocabulary": prepared.vocabulary}
        assert_refused(
            f"--byte_fallback={choice}", tmp_path / "new", **settings
        )
