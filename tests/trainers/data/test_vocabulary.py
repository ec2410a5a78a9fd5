import re

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from tests.trainers.cipher import sentences
from trainers.data import vocabulary
from trainers.data.vocabulary import frequent_characters, train_vocabulary

TEXTS = [text for pair in sentences(200) for text in pair]


def test_frequent_characters_by_hand():
    for texts, limit, expected in (
        # The most frequent first, none below three.
        (["aab", "ba%", "b9", "b99%"], 9, "b9a"),
        (["aaaa bbb", "ccccc"], 2, "ca"),
        (["aaaa bbb", "ccccc"], 0, ""),
        # Full-width digits, a ligature and an ideographic space.
        (
            ["\uff12\uff12 2", "\ufb01\ufb01", "fi\u3000\u3000\u3000"],
            *(9, "2fi"),
        ),
        ([" \t\x00\u2581\r" * 5], 9, ""),
    ):
        assert frequent_characters(texts, limit) == expected
    # U+FDFA is a phrase of four words, U+FDFB one of two.
    found = frequent_characters(["\u2585\u2581", "\ufdfa \ufdfb"] * 3, 99)
    assert found and not set("\u2581\u2585 ") & set(found)


def test_sentences_are_read_once_and_in_parts(monkeypatch):
    monkeypatch.setattr(vocabulary, "_SENTENCES", 2)
    # A part of blank lines is not the end.
    texts = iter(["aa", "b", "", "", "ab", "b"])
    assert frequent_characters(texts, 9) == "ab"
    assert list(texts) == []


def test_a_vocabulary_of_byte_pairs():
    model = train_vocabulary(iter(TEXTS), 60)
    assert model == train_vocabulary(TEXTS, 60)
    tokenizer = Tokenizer(model)
    assert tokenizer.vocabulary_size == 60
    pieces = [tokenizer.id_to_token(i) for i in range(4)]
    assert pieces == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = tokenizer.encode(TEXTS)
    assert not any((row == 1).any() for row in ids)
    assert all(row[-1] == 3 for row in ids)
    assert [tokenizer.decode([row])[0] for row in ids[:20]] == TEXTS[:20]
    # Merges in the order they were learned, best first: section 5.1's kind.
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    merges = [
        processor.get_score(i)
        for i in range(4, 60)
        if len(processor.id_to_piece(i)) > 1
    ]
    assert merges == [-float(rank) for rank in range(len(merges))]


def test_required_characters_have_a_piece_however_rare():
    # One letter in ten thousand: SentencePiece would skip them.
    texts = [*TEXTS] * 20 + ["7 :"]
    for characters, unknown in (("", True), ("7:", False)):
        tokenizer = Tokenizer(train_vocabulary(texts, 60, characters))
        (ids,) = tokenizer.encode(["7 :"])
        assert (1 in ids) == unknown


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_text_gives_a_vocabulary(lines):
    texts = [*TEXTS, *lines] * 3
    needed = frequent_characters(texts, 200)
    tokenizer = Tokenizer(train_vocabulary(texts, len(needed) + 30, needed))
    (ids,) = tokenizer.encode([needed])
    assert 1 not in ids


def test_impossible_sizes_and_texts_are_refused():
    for size, match in ((5000, "5000 .*too large"), (6, "6 .*too small")):
        with pytest.raises(InputError, match=match) as caught:
            train_vocabulary(TEXTS, size)
        # The message names a size that works.
        _, possible = map(int, re.findall(r"\d+", str(caught.value)))
        assert train_vocabulary(TEXTS, possible)
    for texts, size in (
        *((TEXTS, 10**10), ([], 60), ([""], 60)),
        *(([" \u200b"], 60), (["\u2585"], 60)),
    ):
        with pytest.raises(InputError) as caught:
            train_vocabulary(iter(texts), size)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "error", [InputError("Line 7 of x.en is not UTF-8."), KeyboardInterrupt()]
)
def test_errors_of_the_corpus_are_raised_as_they_are(error):
    """They are raised inside SentencePiece's call."""

    def broken():
        yield from TEXTS
        raise error

    with pytest.raises(type(error)) as caught:
        train_vocabulary(broken(), 60)
    assert caught.value is error
