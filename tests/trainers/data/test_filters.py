"""Rules that remove pairs, alone and in a preparation."""

import pytest

from export.common.errors import InputError
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    decoded,
    prepare,
    splits,
)
from trainers.data import filters

PLAIN = ("I have 1,250 cats and a dog.", "J'ai 1 250 chats et un chien.")


@pytest.mark.parametrize(
    ("rule", "removed", "kept"),
    [
        ("letters", ("*** 12/04 --- a", "b"), ("Go on!!", "5 a b")),
        ("letters=0.7", ("Go on!!", "a"), ("Go on", "a")),
        ("numbers", ("5 cats", "3 chats"), ("At 12:30.", "À 12.30 h.")),
        ("numbers", ("5 cats", "chats"), PLAIN),
        ("numbers", ("in 2010 300", "en 2010"), ("5 of १२", "٥ 12")),
        ("numbers=0.5", ("1 and 2", "2 et 3"), ("1 and 2", "1 2 3 x")),
        (
            "identical",
            ("our new shop is open", "our new shop est open"),
            ("Tom met Mary Jackson here", "Tom rencontra ici Mary Jackson"),
        ),
        ("markup", ("<br>Hello", "Bonjour"), ("5 < 6 & a > b", "x <3 y")),
        ("markup", ("Hello&nbsp;you", "a"), ("R&D; a", "a&")),
        ("markup", ("&frac12; a", "&#xA0;"), ("a & b;", "b")),
        ("markup=1", ("<b>a</b>", "a"), ("<br/> a", "b")),
        ("word_length", ("x" * 21, "a"), ("x" * 20, "a")),
        ("word_length=5", ("abc abcdefgh", "a"), ("你好" * 20, "ab")),
        ("equal", ("Okay", "OKAY"), ("12 %", "12 %")),
        ("equal=4", ("Tom Jackson", "Tom Jackson"), ("Tom.", "Tom.")),
    ],
)
def test_what_a_rule_removes(rule, removed, kept):
    thresholds = filters.parse_filters(rule)
    (name,) = thresholds
    for pair in (removed, removed[::-1]):
        assert filters.find_filter(pair, (str, str), thresholds) == name
    for pair in (kept, kept[::-1], PLAIN):
        assert filters.find_filter(pair, (str, str), thresholds) is None


def test_a_preparation_counts_what_each_rule_removes(tmp_path):
    """Of train alone, and after normalization."""
    pairs = splits()
    bad = {"numbers": ("ba 5", "zy ６"), "markup": ("<p>ba", "zy")}
    train = [*pairs["train"]]
    for index, (source, target) in enumerate(bad.values()):
        train.insert(3 + index, (source, (target,)))
    corpus = MemoryCorpus(pairs | {"train": train})
    rules = {"filters": "letters=0.1,numbers,markup"}
    prepared = prepare(tmp_path / "data", corpus, cleaning=rules, max_unknown=1)
    expected = prepare(tmp_path / "plain", max_unknown=1)
    assert decoded(prepared, "train") == decoded(expected, "train")
    counts = prepared.manifest.splits["train"].cleaning
    assert counts.filters == dict.fromkeys(bad, 1)
    assert counts.total == 2


@pytest.mark.parametrize(
    "text", ["", "x", "letters=", "letters=-1", "markup=x"]
)
def test_wrong_rules_are_refused(text):
    with pytest.raises(InputError, match="expected rules"):
        filters.parse_filters(text)
