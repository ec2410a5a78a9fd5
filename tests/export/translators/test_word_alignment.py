"""Links between words, against hand-made tables and SentencePiece's offsets."""

import numpy as np
import pytest
import sentencepiece

from export.translators.word_alignment import word_alignment

# "the black cat" and "le chat noir".
SOURCE = ["▁the", "▁bl", "ack", "▁cat", "</s>", ""]
TARGET = ["▁le", "▁ch", "at", "▁noir", "</s>"]


def attention(*places):
    weights = np.full((len(places), 6), 0.1)
    weights[np.arange(len(places)), places] = 0.5
    return weights


def test_pieces_become_words():
    found = word_alignment(
        "the black cat", SOURCE, TARGET, attention(0, 3, 3, 2, 4)
    )
    assert found == ((0, 0), (1, 2), (2, 1))


def test_a_link_is_named_once_and_a_word_may_have_two():
    found = word_alignment(
        "the black cat", SOURCE, TARGET, attention(1, 2, 3, 0, 0)
    )
    assert found == ((0, 2), (1, 0), (1, 1), (2, 1))


def test_the_end_and_padding_are_no_words():
    weights = attention(4, 5, 5, 4, 0)
    weights[:, 2] += 0.05
    found = word_alignment("the black cat", SOURCE, TARGET, weights)
    assert found == ((1, 0), (1, 1), (1, 2))


@pytest.mark.parametrize(
    "source, target",
    [(["</s>"], TARGET), (SOURCE, ["</s>", ""]), ([], []), (SOURCE, [""])],
)
def test_nothing_has_no_links(source, target):
    assert word_alignment("", source, target, np.zeros((5, 6))) == ()


def test_a_lone_space_begins_the_next_word():
    found = word_alignment(
        "a b", ["▁a", "▁", "b"], ["▁", "x", "▁", "▁y", "▁"], np.eye(5, 3)[:, :]
    )
    # Row by row: a, b (its space), b, then ties go to the first piece.
    assert found == ((0, 0), (0, 1), (1, 0), (1, 1))


@pytest.mark.parametrize(
    "text, words",
    [
        ("a b c", [0, 1, 2]),
        ("a\u00a0b\u3000c", [0, 1, 2]),
        # Normalisation makes two words of one, and none of another.
        ("a\u200bb c", [0, 0, 1]),
        ("\u200b a b c", [1, 2, 3]),
        ("a \u00b4b c", [0, 1, 2]),
        ("a b\u00a8c", [0, 1, 1]),
        ("a b\u200cc", [0, 1, 1]),
        ("a \x07 b c", [0, 2, 3]),
        ("a\x0b b\x1c c\x1f", [0, 1, 2]),
        ("a\x1cd b\x85\x85 c", [0, 1, 2]),
        # What cannot be explained has the last word.
        ("a b", [0, 1, 1]),
    ],
)
def test_words_are_those_between_white_space(text, words):
    found = word_alignment(
        text, ["▁a", "▁b", "▁c"], ["▁x", "▁y", "▁z"], np.eye(3)
    )
    assert found == tuple(zip(words, range(3)))


def test_words_are_counted_as_sentencepiece_counts_them():
    normaliser = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False
    )
    for code in [*range(1, 0x3100), 0xFEFF, 0xFFFD]:
        text = f"a{chr(code)}b {chr(code)} c"
        normalised = normaliser.normalize(text).replace("\u2581", " ")
        count = len(list(filter(None, normalised.split(" "))))
        pieces = [f"\u2581{number}" for number in range(count + 1)]
        links = word_alignment(text, pieces, pieces, np.eye(count + 1))
        owners = [source for source, _ in links]
        # The piece too many counts for the last word; before it that word,
        # which is one for the tokenizer too, has one piece.
        assert owners[-1] == owners[-2] > owners[-3], hex(code)
