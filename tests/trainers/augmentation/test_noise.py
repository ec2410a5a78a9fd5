"""Noise in training pairs: capitals, typing errors, words alone."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.tokenizers.letter_case import CASE_MARKS
from tests.trainers import cipher
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    assert_refused,
    contents,
    decoded,
    prepare,
    splits,
)
from trainers.augmentation import noise, word_pairs
from trainers.augmentation.noise import Noise, add_noise

PAIRS = [
    (f"{s} {i}", f"{t} {i}") for i, (s, t) in enumerate(cipher.sentences(2000))
]


def noisy(pair, kind, languages=("en", "fr"), translations=None):
    settings = Noise({kind: 1.0}, languages, translations or {})
    (changed,) = add_noise([pair], settings)
    return changed


def test_rates_are_shares_of_pairs_of_independent_kinds():
    rates = {"upper": 0.1, "lower": 0.3, "typos": 0.2}
    changed = [*add_noise(PAIRS, Noise(rates))]
    counts = collections.Counter()
    for (source, target), (other, other_target) in zip(
        PAIRS, changed, strict=True
    ):
        assert other_target in (target, target.upper(), target.lower())
        counts["upper"] += other_target.isupper()
        counts["typos"] += other.lower() != source.lower()
    assert counts["upper"] == pytest.approx(0.1 * 0.7 * len(PAIRS), rel=0.25)
    assert counts["typos"] == pytest.approx(0.2 * len(PAIRS), rel=0.25)
    both = add_noise(PAIRS, Noise({"upper": 0.3, "title": 0.4}))
    count = sum(pair != other for pair, other in zip(PAIRS, both))
    assert count == pytest.approx((1 - 0.7 * 0.6) * len(PAIRS), rel=0.1)
    # A pair's noise does not depend on other pairs.
    assert changed[7:9] == [*add_noise(PAIRS[7:9], Noise(rates))]
    assert [*add_noise(PAIRS, Noise())] == PAIRS


@pytest.mark.parametrize(
    ("language", "text", "upper", "title", "lower"),
    [
        ("en", "Don't go (to Rome).", "DON'T GO (TO ROME).",
         "Don't Go (To Rome).", "don't go (to rome)."),
        ("tr", "Işık iyi", "IŞIK İYİ", "Işık İyi", "ışık iyi"),
        ("de", "große Straße", "GROSSE STRASSE", "Große Straße",
         "große straße"),
        ("el", "Ο δρόμος", "Ο ΔΡΟΜΟΣ", "Ο Δρόμος", "ο δρόμος"),
        ("nl", "het ijs", "HET IJS", "Het IJs", "het ijs"),
        ("zh", "你好。", "你好。", "你好。", "你好。"),
    ],
)  # fmt: skip
def test_case_changes_on_both_sides(language, text, upper, title, lower):
    expected = {"upper": upper, "title": title, "lower": lower}
    for kind, changed in expected.items():
        found = noisy((text, text), kind, [f"{language}_XX"] * 2)
        assert found == (changed, changed)


@settings(max_examples=60)
@given(st.text("abcé '.XYZ", min_size=1))
def test_typos_change_few_letters_of_the_source(text):
    source, target = noisy((text, "t"), "typos")
    assert target == "t"
    assert source.strip()
    if sum(map(str.isalpha, text)) < 20:
        # One error: the ends that remain are of the text.
        common = sum(
            (collections.Counter(text) & collections.Counter(source)).values()
        )
        assert common >= len(text.strip()) - 1


def test_punctuation_and_quotes_change_in_the_source():
    found = {
        noisy((f"Is “it” {i} ?", "x ?"), "punctuation")[0].removeprefix(
            f"Is “it” {i}"
        )
        for i in range(50)
    }
    assert found == {"", "??", "???"}
    assert noisy(("?", "x"), "punctuation")[0]
    quotes = {noisy((f"{i} “a” l’o", "«x»"), "quotes") for i in range(50)}
    assert {target for _, target in quotes} == {"«x»"}
    assert len({source.split(" ")[1] for source, _ in quotes}) > 3


def test_words_of_a_made_up_language_are_aligned():
    """Each word has one translation; their order is random."""
    generator = np.random.default_rng(1)
    pairs = []
    for _ in range(400):
        words = generator.choice(40, 5, replace=False)
        source = " ".join(f"a{word}" for word in words)
        target = " ".join(f"b{word}" for word in generator.permutation(words))
        pairs.append((source, target))
    translations = word_pairs.learn_word_pairs(iter(pairs), len(pairs))
    assert {word: found for word, (_, found) in translations.items()} == {
        f"a{word}": [f"b{word}"] for word in range(40)
    }
    rates = Noise({"words": 1.0}, translations=translations)
    for (source, target), (one, other) in zip(pairs, add_noise(pairs, rates)):
        assert one in source
        assert other in target
        # A phrase may have another order.
        assert sorted(one[1:].split(" a")) == sorted(other[1:].split(" b"))
    assert word_pairs.learn_word_pairs(iter([("…", "a")]), 1) == {}


def test_turkish_has_no_marks(tmp_path):
    corpus = MemoryCorpus(splits())
    corpus.target_language = "tr_TR"
    rates = {"noise": "upper=0.2,title=0.1"}
    prepared = prepare(
        tmp_path, corpus, cleaning=rates, vocabulary=None, max_unknown=1
    )
    content = (prepared.folder / "vocabulary.model").read_bytes()
    assert CASE_MARKS[0].encode() not in content


@pytest.mark.parametrize(
    "text", ["", "shout=0.1", "upper", "upper=x", "upper=2", "lower=-1"]
)
def test_wrong_rates_are_refused(text):
    with pytest.raises(InputError, match="expected kind=rate"):
        noise.parse_noise(text)


def test_only_training_pairs_get_noise(tmp_path):
    rates = "lower=0.4,words=0.3"
    for name, value in {"plain": "off", "noisy": rates}.items():
        prepared = prepare(tmp_path / name, cleaning={"noise": value})
    assert prepared.manifest.source.noise == rates
    before, after = contents(tmp_path / "plain"), contents(tmp_path / "noisy")
    assert {name for name in before if before[name] != after[name]} == {
        "manifest.json",
        "train-00000.ids.npy",
        "train-00000.lengths.npy",
    }
    pairs = [*MemoryCorpus(splits()).pairs("train")]
    translations = word_pairs.learn_word_pairs(iter(pairs), len(pairs))
    settings = Noise(noise.parse_noise(rates), translations=translations)
    assert decoded(prepared, "train") == [*add_noise(pairs, settings)]


def test_a_vocabulary_has_marks_of_capitals_if_training_has_examples(tmp_path):
    for rates in ("lower=0.1", "upper=0.2,title=0.1"):
        prepared = prepare(
            tmp_path / rates, cleaning={"noise": rates}, vocabulary=None
        )
        vocabulary = prepared.folder / "vocabulary.model"
        has_marks = CASE_MARKS[0].encode() in vocabulary.read_bytes()
        assert has_marks == ("upper" in rates)


def test_mixtures_get_no_noise(tmp_path):
    corpus = MemoryCorpus(splits())
    corpus.directions = {"dev-1": ("en", "fr")}
    assert_refused(
        "--noise", tmp_path / "data", corpus, cleaning={"noise": "lower=0.1"}
    )
