"""Beam search on tables small enough to be worked out on paper.

Words a and b have ids 4 and 1. A table gives, after each prefix, the
probabilities of a, b and the end; the remaining ids get none to speak of.
"""

import math

import numpy as np
import pytest

from tests.keras_transformer.decoding import beam_tables as bt

A, B, END = 4, 1, bt.END
ROOM = 4
TINY = 1e-99


def table_of(rows):
    """{prefix: (p(a), p(b), p(end))} as logits [1, prefixes, V]."""
    probabilities = np.full((1, bt.prefixes(ROOM), bt.VOCABULARY), TINY)
    probabilities[:, :, END] = 1.0
    for prefix, row in rows.items():
        number = bt.number_of({"a": A, "b": B}[word] for word in prefix)
        probabilities[0, number, [A, B, END]] = np.maximum(row, TINY)
    return np.log(probabilities)


def best(rows, limit, beams, alpha, kind="gnmt"):
    """[(hypothesis as letters, score)], "." for the end."""
    tokens, scores = bt.search(
        table_of(rows), [limit], ROOM, beams, alpha, kind
    )
    letters = {A: "a", B: "b", END: "."}
    return [
        ("".join(letters[word] for word in bt.as_tuple(row)), score)
        for row, score in zip(tokens[0], scores[0])
        if score > -50  # ln TINY / 4, the largest penalty, is -57
    ]


def assert_best(actual, *expected):
    assert [words for words, _ in actual] == [words for words, _ in expected]
    for (_, score), (_, wanted) in zip(actual, expected):
        assert score == pytest.approx(wanted, abs=1e-5)


# "b." has 0.4 and is the best; greedily one goes after a, which has 0.6.
GARDEN_PATH = {
    "": (0.6, 0.4, 0.0),
    "a": (0.40, 0.35, 0.25),
    "b": (0.0, 0.0, 1.0),
    "aa": (0.3, 0.2, 0.5),
    "ab": (0.05, 0.05, 0.9),
}


def test_one_beam_is_too_narrow():
    """K = 1 looks at the 2 best continuations.

    Step 1: a 0.6 and b 0.4, neither ends; a lives on.
    Step 2: aa 0.24, ab 0.21, "a." 0.15: the end is third and does not count.
    Step 3 is the limit: "aa." 0.24 * 0.5 = 0.12, though "b." is worth 0.4
    and even the passed over "a." 0.15.
    """
    assert_best(best(GARDEN_PATH, 3, 1, 0.0), ("aa.", math.log(0.12)))


def test_two_beams_find_it():
    """K = 2 looks at the 4 best continuations.

    Step 1: a 0.6 and b 0.4 live on.
    Step 2: "b." 0.4, aa 0.24, ab 0.21, "a." 0.15 are the 4 best: two finish,
    aa and ab live on. Live 0.24 can still beat the worse finished, 0.15.
    Step 3 is the limit: "aa." 0.12 and "ab." 0.21 * 0.9 = 0.189, which takes
    the second place from "a.".
    """
    assert_best(
        best(GARDEN_PATH, 3, 2, 0.0),
        ("b.", math.log(0.4)),
        ("ab.", math.log(0.189)),
    )


def test_the_limit_forces_the_end():
    """As before, but at 2 tokens: what lives then is "a." and "b."."""
    assert_best(
        best(GARDEN_PATH, 2, 2, 0.0),
        ("b.", math.log(0.4)),
        ("a.", math.log(0.15)),
    )


def test_an_end_counts_among_the_2k_best():
    """K = 2: of a 0.5, b 0.3 and "." 0.2 the last is third, and finishes.

    At 2 tokens "a." 0.5 * 0.1 and "b." 0.3 * 0.1 are forced. With K = 1 the 2
    best are a and b; a alone lives on, and "." is lost.
    """
    rows = {"": (0.5, 0.3, 0.2), "a": (0.5, 0.4, 0.1), "b": (0.5, 0.4, 0.1)}
    assert_best(
        best(rows, 2, 2, 0.0), (".", math.log(0.2)), ("a.", math.log(0.05))
    )
    assert_best(best(rows, 2, 1, 0.0), ("a.", math.log(0.05)))


def test_at_the_limit_even_an_unlikely_end_counts():
    """Limit 1 leaves the empty output only, whatever it is worth."""
    rows = {"": (0.9, 0.09, 0.01)}
    assert_best(best(rows, 1, 1, 0.6), (".", math.log(0.01)))


# "." 0.3, "a." 0.7 * 0.52 = 0.364, "aa." 0.7 * 0.48 = 0.336.
LONGER_IS_RARER = {
    "": (0.7, 0.0, 0.3),
    "a": (0.48, 0.0, 0.52),
    "aa": (0.0, 0.0, 1.0),
}


def test_without_a_length_penalty():
    assert_best(
        best(LONGER_IS_RARER, 4, 4, 0.0),
        ("a.", math.log(0.364)),
        ("aa.", math.log(0.336)),
        (".", math.log(0.3)),
    )


def test_gnmt_length_penalty():
    """Penalties at alpha = 1: 6/6, 7/6 and 8/6 for 1, 2 and 3 tokens.

    ln 0.336 = -1.090644 / 1.333333 = -0.817983 comes first,
    ln 0.364 = -1.010601 / 1.166667 = -0.866230 second,
    ln 0.3   = -1.203973 last.
    """
    assert_best(
        best(LONGER_IS_RARER, 4, 4, 1.0),
        ("aa.", -0.817983),
        ("a.", -0.866230),
        (".", -1.203973),
    )


def test_power_length_penalty():
    """Penalties at alpha = 1: 1, 2 and 3.

    ln 0.336 / 3 = -0.363548, ln 0.364 / 2 = -0.505301, ln 0.3 = -1.203973.
    """
    assert_best(
        best(LONGER_IS_RARER, 4, 4, 1.0, "power"),
        ("aa.", -0.363548),
        ("a.", -0.505301),
        (".", -1.203973),
    )


def test_finished_is_frozen():
    """ "." of 0.6 is found at once; the live "a" of 0.4 must not replace it.

    K = 1: the bound of a at the limit is ln 0.4 < ln 0.6: the search stops.
    """
    rows = {"": (0.4, 0.0, 0.6), "a": (0.0, 0.0, 1.0)}
    assert_best(best(rows, 4, 1, 0.0), (".", math.log(0.6)))


def test_a_longer_one_may_still_win_by_its_length():
    """The same at alpha = 1, power, where the search must go on.

    "." has ln 0.6 = -0.510826. At the limit of 4 tokens the live a could
    have ln 0.4 / 4 = -0.229073. It ends for certain as "a.":
    ln 0.4 / 2 = -0.458145, which is better than ".".
    """
    rows = {"": (0.4, 0.0, 0.6), "a": (0.0, 0.0, 1.0)}
    assert_best(best(rows, 4, 1, 1.0, "power"), ("a.", -0.458145))
