import collections

from hypothesis import given
from hypothesis import strategies as st

from trainers.prepared import vocabulary
from trainers.prepared.vocabulary import frequent_characters


def test_the_most_frequent_first_and_none_below_three():
    assert frequent_characters(["aab", "ba%", "b9", "b99%"], 9) == "b9a"


def test_no_more_than_asked_for():
    texts = ["aaaa bbb", "ccccc"]
    assert frequent_characters(texts, 2) == "ca"
    assert frequent_characters(texts, 0) == ""


def test_characters_count_as_what_normalisation_makes_of_them():
    # Full-width digits, a ligature and an ideographic space.
    texts = ["\uff12\uff12 2", "\ufb01\ufb01", "fi\u3000\u3000\u3000"]
    assert frequent_characters(texts, 9) == "2fi"


def test_no_white_space_and_no_control_characters():
    assert frequent_characters([" \t\x00\u2581\r" * 5], 9) == ""


def test_what_sentencepiece_reserves_is_no_character():
    # U+FDFA is a phrase of four words, U+FDFB one of two.
    texts = ["\u2585\u2581", "\ufdfa \ufdfb"] * 3
    found = frequent_characters(texts, 99)
    assert found
    assert not set("\u2581\u2585 ") & set(found)


def test_sentences_are_read_once_and_in_parts(monkeypatch):
    monkeypatch.setattr(vocabulary, "_SENTENCES", 2)
    # A part of blank lines is not the end.
    texts = iter(["aa", "b", "", "", "ab", "b"])
    assert frequent_characters(texts, 9) == "ab"
    assert list(texts) == []


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]))))
def test_as_counted_one_by_one(texts):
    counts = collections.Counter("".join(texts))
    found = frequent_characters(texts, 200)
    assert set(found) == {c for c, n in counts.items() if n >= 3}
    ordered = [counts[c] for c in found]
    assert ordered == sorted(ordered, reverse=True)
