"""Alignments and comparisons of translations, worked out by hand."""

import numpy as np
import pytest

from export.translators.text_translator import (
    word_alignment,
)

# "the black cat", its end and padding; "le chat noir" and its end.
SOURCE = np.array([0, 1, 1, 2, -1, -1])
TARGET = np.array([0, 1, 1, 2, -1])
NO_WORDS = np.array([-1, -1])


def links(places, source=SOURCE, target=TARGET, last=0):
    """Of target tokens that attend to source tokens in these places."""
    weights = np.full((len(target), len(source)), 0.1)
    weights[np.arange(len(places)), places] = 0.5
    # More to the end and to padding than to any other token but these.
    weights[:, source < 0] += 0.2
    source, target = (np.stack([each, each], 1) for each in (source, target))
    source[:, 1] += last * (source[:, 1] >= 0)
    return word_alignment(source, target, weights)


@pytest.mark.parametrize(
    "places, expected",
    [
        ((0, 3, 3, 2, 4), ((0, 0), (1, 2), (2, 1))),
        # A link is named once, and a word may have two.
        ((1, 2, 3, 0, 0), ((0, 2), (1, 0), (1, 1), (2, 1))),
        # The end and padding are no words.
        ((4, 5, 5, 4, 0), ((0, 0), (0, 1), (0, 2))),
    ],
)
def test_tokens_become_words(places, expected):
    assert links(places) == expected


def test_a_token_of_two_words_links_both():
    found = links((0, 0), np.array([0, 2]), np.array([0, 1]), last=1)
    assert found == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_no_words_have_no_links():
    assert links((0, 1), NO_WORDS, TARGET) == ()
    assert links((0, 1), SOURCE, NO_WORDS) == ()
    empty = np.zeros((0, 2), np.int32)
    assert word_alignment(empty, empty, np.zeros((0, 0))) == ()
