"""Links between words, against hand-made tables and SentencePiece's offsets."""

import numpy as np
import pytest

from export.word_alignment import word_alignment

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
        # What cannot be explained has the last word.
        ("a b", [0, 1, 1]),
    ],
)
def test_words_are_those_between_white_space(text, words):
    found = word_alignment(
        text, ["▁a", "▁b", "▁c"], ["▁x", "▁y", "▁z"], np.eye(3)
    )
    assert found == tuple(zip(words, range(3)))
