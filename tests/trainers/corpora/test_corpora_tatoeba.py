import collections
import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.errors import InputError
from trainers.corpora import open_corpus, tatoeba
from trainers.corpora import tatoeba as tatoeba_archive
from trainers.corpora.tatoeba import (
    parse,
    split_by_english,
    variant_key,
    without_shared_sources,
)

LETTERS = st.text("abcdefgXYZÀÉéßœŒ0123456789", max_size=20)
MARKS = st.text(" .,;:!?'\"-–—…«»’\u00a0\u202f_()", max_size=5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Go.", "go!"),
        ("I'm here.", "Im here"),
        ("It’s 5 o'clock", "ITS 5 OCLOCK…"),
        ("Straße", "STRASSE"),
        ("ﬁne", "fine"),
        ("x²", "x2"),
        ("caf\u00e9", "cafe\u0301"),
        ("Va\u202f!", "va !"),
        ("snake_case", "snakecase"),
    ],
)
def test_variants(one, other):
    assert variant_key(one) == variant_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Go.", "Do."), ("10", "100"), ("ou", "où"), ("cote", "côté")],
)
def test_what_is_no_variant(one, other):
    assert variant_key(one) != variant_key(other)


@given(st.lists(st.tuples(LETTERS, MARKS)))
def test_marks_between_letters_do_not_change_the_key(parts):
    letters = "".join(part for part, _ in parts)
    with_marks = "".join(itertools.chain.from_iterable(parts))
    assert variant_key(with_marks) == variant_key(letters)


@given(LETTERS)
def test_case_does_not_change_the_key(text):
    assert variant_key(text.upper()) == variant_key(text)
    assert variant_key(text.lower()) == variant_key(text)


@given(st.text())
def test_the_key_holds_letters_and_digits_only(text):
    key = variant_key(text)
    assert key == "" or key.isalnum()
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert variant_key(unicodedata.normalize(form, text)) == key


@given(st.text())
def test_the_key_is_the_documented_one(text):
    # Written out character by character, apart from the regular expression.
    folded = unicodedata.normalize("NFKC", text).casefold()
    assert variant_key(text) == "".join(c for c in folded if c.isalnum())


def test_parsing_makes_pairs_distinct_up_to_white_space():
    text = (
        "Go.\tVa !\tCC-BY\n"
        "Go.\tVa\u202f!\tCC-BY\n"
        "Go.\tVas-y.\tCC-BY\n"
        " Go. \tVa !\n"
        "?!\tQuoi\tCC-BY\n"
        "What\t…\tCC-BY\n"
        "a\x85b\tc\u2028d\tCC-BY\n"
    )
    assert parse(text) == [
        ("Go.", "Va !"),
        ("Go.", "Vas-y."),
        ("a b", "c d"),
    ]


# Few words and many collisions: every rule of the split comes into play.
WORD = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"])
SIDE = st.builds(
    lambda word, end, upper: (word.upper() if upper else word) + end,
    WORD,
    st.sampled_from(["", ".", "!"]),
    st.booleans(),
)
PAIRS = st.lists(st.tuples(SIDE, SIDE), unique=True)


def _keys(pairs, side=0):
    return {variant_key(pair[side]) for pair in pairs}


@given(PAIRS, st.integers(0, 4))
def test_no_english_variant_is_on_two_sides(pairs, held_out):
    splits = split_by_english(pairs, held_out)
    keys = {name: _keys(part) for name, part in splits.items()}
    for one, other in itertools.combinations(keys.values(), 2):
        assert not one & other
    assert sorted(sum(splits.values(), [])) == sorted(pairs)
    count = len(_keys(pairs))
    assert len(keys["test"]) == min(held_out, count)
    assert len(keys["dev"]) == min(held_out, max(0, count - held_out))


@given(PAIRS, st.integers(0, 4), st.randoms())
def test_the_split_does_not_depend_on_the_order(pairs, held_out, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    one = split_by_english(pairs, held_out)
    other = split_by_english(shuffled, held_out)
    assert {k: set(v) for k, v in one.items()} == {
        k: set(v) for k, v in other.items()
    }


@given(PAIRS, st.integers(0, 4))
def test_from_french_no_source_variant_is_on_two_sides(pairs, held_out):
    swapped = {
        name: [(french, english) for english, french in part]
        for name, part in split_by_english(pairs, held_out).items()
    }
    kept = without_shared_sources(swapped)
    for one, other in itertools.combinations(kept.values(), 2):
        assert not _keys(one) & _keys(other)
        assert not _keys(one, 1) & _keys(other, 1)
    assert kept["test"] == swapped["test"]
    for name in ("dev", "train"):
        later = _keys(swapped["test"])
        if name == "train":
            later |= _keys(swapped["dev"])
        dropped = set(swapped[name]) - set(kept[name])
        assert _keys(dropped) <= later


@given(PAIRS, st.integers(0, 4))
def test_from_english_no_pair_is_lost_to_shared_sources(pairs, held_out):
    splits = split_by_english(pairs, held_out)
    assert without_shared_sources(splits) == splits


def test_the_order_of_the_keys_is_that_of_their_sha256():
    # sha256 in hex begins: d 18ac, c 2e7d, b 3e23, a ca97.
    pairs = [("A.", "1"), ("B.", "2"), ("C.", "3"), ("D.", "4")]
    splits = split_by_english(pairs, 1)
    assert splits["test"] == [("D.", "4")]
    assert splits["dev"] == [("C.", "3")]
    assert splits["train"] == [("B.", "2"), ("A.", "1")]


@pytest.fixture
def small(index, monkeypatch):
    """A corpus of four English keys; one is held out for each of two."""
    monkeypatch.setattr(
        tatoeba,
        "split_by_english",
        lambda pairs: split_by_english(pairs, 1),
    )
    lines = (
        ("D!", "Quatre."),
        ("D.", "quatre un"),
        ("D.", "Quatre !"),
        ("D.", "quatre"),
        ("C.", "Trois."),
        ("C.", "QUATRE"),
        ("B.", "Deux."),
        ("B.", "Quatre…"),
        ("A.", "trois"),
        ("A.", "Un."),
    )
    index.serve("".join(f"{a}\t{b}\tCC-BY\n" for a, b in lines))


def test_from_english(small):
    corpus = open_corpus("tatoeba-en-fr", None, None)
    assert (corpus.source_language, corpus.target_language) == ("en", "fr")
    assert corpus.name == "tatoeba-en-fr"
    assert corpus.splits() == ("train", "dev", "test")
    held_out = corpus.evaluation_set("test")
    # "D." has more references than "D!"; only its own count.
    assert held_out.sources == ("D.",)
    assert held_out.references == (("quatre un", "Quatre !", "quatre"),)
    assert corpus.evaluation_set("dev").references == (("Trois.", "QUATRE"),)
    assert list(corpus.pairs("train")) == [
        ("B.", "Deux."),
        ("B.", "Quatre…"),
        ("A.", "trois"),
        ("A.", "Un."),
    ]


def test_from_french(small):
    corpus = open_corpus("tatoeba-en-fr", "fr", None)
    held_out = dict(corpus.pairs("test"))
    # One sentence stands for "Quatre.", "Quatre !" and "quatre": all have
    # one reference, so the first by code point does.
    assert held_out == {"Quatre !": "D.", "quatre un": "D."}
    # "QUATRE" is a variant of a test source, so dev loses it.
    assert list(corpus.pairs("dev")) == [("Trois.", "C.")]
    # "Quatre…" goes for test's sake, "trois" for dev's.
    assert list(corpus.pairs("train")) == [("Deux.", "B."), ("Un.", "A.")]


def test_the_fingerprint_follows_data_and_direction(small, index):
    there = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    assert there == open_corpus("tatoeba-en-fr", None, None).fingerprint()
    back = open_corpus("tatoeba-en-fr", "fr", "en").fingerprint()
    index.serve("".join(f"{c}.\t{c}\n" for c in "abcd"))
    other = open_corpus("tatoeba-en-fr", "en", "fr").fingerprint()
    assert len({there, back, other}) == 3


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("de", None, "no language 'de'; it has en, fr"),
        ("en", "en", "both 'en'.*en, fr"),
        ("fr", "fr", "both 'fr'"),
    ],
)
def test_languages_are_refused_before_anything_is_fetched(
    index, source, target, message
):
    with pytest.raises(InputError, match=message):
        open_corpus("tatoeba-en-fr", source, target)
    assert index.fetched == 0


def test_a_split_that_is_not_there(small):
    corpus = open_corpus("tatoeba-en-fr", None, None)
    with pytest.raises(InputError, match="it has train, dev, test"):
        corpus.evaluation_set("validation")


def test_the_attribution_names_source_and_licence():
    for part in ("tatoeba.org", "CC BY 2.0 FR", "manythings.org/anki"):
        assert part in tatoeba.ATTRIBUTION


@pytest.fixture(scope="module", params=["en", "fr"])
def real(request):
    """The real corpus from either side, where it is in the cache."""
    path = tatoeba_archive.cache_folder() / tatoeba_archive.FILE_NAME
    if not path.exists():
        pytest.skip(f"{path} is not there; open the corpus once to fetch it")
    return open_corpus("tatoeba-en-fr", request.param, None)


def test_the_real_corpus(real):
    pairs = {split: list(real.pairs(split)) for split in real.splits()}
    keys = {split: _keys(part) for split, part in pairs.items()}
    for one, other in itertools.combinations(pairs, 2):
        assert not keys[one] & keys[other]
    english = real.source_language == "en"
    assert {split: len(part) for split, part in pairs.items()} == (
        {"train": 172_192, "dev": 2_752, "test": 2_882}
        if english
        else {"train": 171_422, "dev": 2_740, "test": 2_881}
    )
    for split in ("dev", "test"):
        held_out = real.evaluation_set(split)
        sources = collections.Counter(map(variant_key, held_out.sources))
        assert max(sources.values()) == 1
        if english:
            assert len(held_out.sources) == 2_000
        for group in held_out.references:
            assert len(set(group)) == len(group)
