import re
import sys
import unicodedata

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from export.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from tests.trainers.cipher import sentences
from trainers.prepared.vocabulary import frequent_characters, train_vocabulary

PAIRS = sentences(200)


def _both_sides():
    for pair in PAIRS:
        yield from pair


def test_the_size_is_the_one_asked_for_with_the_special_ids_first():
    tokenizer = Tokenizer(train_vocabulary(_both_sides(), 60))
    assert tokenizer.vocabulary_size == 60
    pieces = [tokenizer.id_to_piece(i) for i in range(4)]
    assert pieces == ["<pad>", "<unk>", "<s>", "</s>"]


def test_it_is_a_byte_pair_encoding():
    model = train_vocabulary(_both_sides(), 60)
    # Merges in the order they were learned, best first: section 5.1's kind.
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    multiple = [
        processor.get_score(i)
        for i in range(4, 60)
        if len(processor.id_to_piece(i)) > 1
    ]
    assert multiple == [-float(rank) for rank in range(len(multiple))]


def test_both_languages_come_through_without_unknown_pieces():
    tokenizer = Tokenizer(train_vocabulary(_both_sides(), 60))
    texts = list(_both_sides())
    ids = tokenizer.encode(texts)
    assert not any((row == 1).any() for row in ids)
    assert all(row[-1] == 3 for row in ids)
    assert [tokenizer.decode([row])[0] for row in ids[:20]] == texts[:20]


def test_characters_that_must_be_there_are_however_rare():
    # One letter in ten thousand: SentencePiece would leave them out.
    texts = [*_both_sides()] * 20 + ["7 :"]
    for characters, unknown in (("", True), ("7:", False)):
        tokenizer = Tokenizer(train_vocabulary(texts, 60, characters))
        assert tokenizer.vocabulary_size == 60
        (ids,) = tokenizer.encode(["7 :"])
        assert (1 in ids) == unknown


def _assigned():
    """Every code point that Unicode has given a meaning."""
    codes = map(chr, range(sys.maxunicode + 1))
    return [c for c in codes if unicodedata.category(c) not in ("Cn", "Cs")]


@pytest.mark.slow
def test_every_assigned_code_point_may_stand_in_the_text():
    codes = _assigned()
    assert len(codes) > 140_000
    # Between letters, where white space and marks have something to change.
    texts = [*_both_sides(), *(f"a{code}b" for code in codes)] * 3
    needed = frequent_characters(texts, len(codes))
    assert len(needed) > 130_000
    tokenizer = Tokenizer(train_vocabulary(texts, len(needed) + 99, needed))
    (ids,) = tokenizer.encode([needed])
    assert len(ids) > len(needed) / 2
    assert 1 not in ids


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_text_beside_the_corpus_gives_a_vocabulary(lines):
    texts = [*_both_sides(), *lines] * 3
    needed = frequent_characters(texts, 200)
    tokenizer = Tokenizer(train_vocabulary(texts, len(needed) + 30, needed))
    (ids,) = tokenizer.encode([needed])
    assert 1 not in ids


def test_the_same_text_gives_the_same_bytes():
    assert train_vocabulary(_both_sides(), 50) == train_vocabulary(
        _both_sides(), 50
    )


def _numbers(message):
    assert "\n" not in message
    return list(map(int, re.findall(r"\d+", message)))


def test_too_large_names_a_size_that_works():
    with pytest.raises(InputError, match="5000 pieces is too large") as caught:
        train_vocabulary(_both_sides(), 5000)
    _, possible = _numbers(str(caught.value))
    assert len(train_vocabulary(_both_sides(), possible)) > 0


def test_too_small_names_a_size_that_works():
    with pytest.raises(InputError, match="6 pieces is too small") as caught:
        train_vocabulary(_both_sides(), 6)
    _, needed = _numbers(str(caught.value))
    assert len(train_vocabulary(_both_sides(), needed)) > 0


def test_a_size_beyond_sentencepieces_numbers_is_too_large():
    with pytest.raises(InputError):
        train_vocabulary(_both_sides(), 10**10)


def test_no_text_gives_no_vocabulary():
    with pytest.raises(InputError):
        train_vocabulary(iter([]), 60)


def test_what_is_wrong_with_the_corpus_is_said_as_the_corpus_says_it():
    """Not as an error of SentencePiece, and without a Python stack."""

    def broken():
        yield from _both_sides()
        raise InputError("Line 7 of x.en is not UTF-8.")

    with pytest.raises(InputError) as caught:
        train_vocabulary(broken(), 60)
    assert str(caught.value) == "Line 7 of x.en is not UTF-8."


def test_ctrl_c_while_the_text_is_read_is_no_fault_of_the_vocabulary():
    """It arrives in the iterator, inside SentencePiece's call."""

    def interrupted():
        yield from _both_sides()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_vocabulary(interrupted(), 60)
