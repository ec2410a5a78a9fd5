"""Beam search on tables small enough to be worked out on paper.

Words a and b have ids 4 and 1. A table gives, after each prefix, the
probabilities of a, b and the end; the remaining ids get none to speak of.
"""

import math

import numpy as np
import pytest

from tests.keras_transformer.decoding import beam_tables as bt

A, B, END = 4, 1, bt.END
CAPACITY = 4
TINY = 1e-99
LETTERS = {"a": A, "b": B, ".": END}

# "b." has 0.4 and is the best; greedily one goes after a, which has 0.6.
GARDEN_PATH = {
    "": (0.6, 0.4, 0.0),
    "a": (0.40, 0.35, 0.25),
    "b": (0.0, 0.0, 1.0),
    "aa": (0.3, 0.2, 0.5),
    "ab": (0.05, 0.05, 0.9),
}
THREE_FIRST = {
    "": (0.5, 0.3, 0.2),
    "a": (0.5, 0.4, 0.1),
    "b": (0.5, 0.4, 0.1),
}
SHORT = {"": (0.4, 0.0, 0.6), "a": (0.0, 0.0, 1.0)}


def log(**probabilities):
    return {
        words.replace("_", "."): math.log(value)
        for words, value in probabilities.items()
    }


# Table, limit, beams, alpha, penalty, hypotheses with scores, best first.
CASES = [
    # One beam is too narrow. Step 1: a 0.6 and b 0.4, neither ends; a lives
    # on. Step 2: aa 0.24, ab 0.21, "a." 0.15: the end is third and does not
    # count. Step 3 is the limit: "aa." 0.24 * 0.5 = 0.12, though "b." has 0.4.
    (GARDEN_PATH, 3, 1, 0.0, "gnmt", log(aa_=0.12)),
    # Two find it. Step 1: a and b live on. Step 2: "b." 0.4, aa 0.24, ab 0.21,
    # "a." 0.15 are the 4 best: two finish. Live 0.24 can still beat 0.15.
    # Step 3: "aa." 0.12 and "ab." 0.21 * 0.9 = 0.189, instead of "a.".
    (GARDEN_PATH, 3, 2, 0.0, "gnmt", log(b_=0.4, ab_=0.189)),
    # The end 0.2 is third and finishes; "a." 0.5 * 0.1 is forced at 2 tokens.
    (THREE_FIRST, 2, 2, 0.0, "gnmt", log(_=0.2, a_=0.05)),
    # The 2 best are a and b; a alone lives on, and "." is lost.
    (THREE_FIRST, 2, 1, 0.0, "gnmt", log(a_=0.05)),
    # The bound of a at the limit is ln 0.4 < ln 0.6: the search stops.
    (SHORT, 4, 1, 0.0, "gnmt", log(_=0.6)),
    # "." has ln 0.6 = -0.51; a could have ln 0.4 / 4 = -0.23 at the limit, and
    # gets ln 0.4 / 2 = -0.458145.
    (SHORT, 4, 1, 1.0, "power", {"a.": -0.458145}),
]


@pytest.mark.parametrize("rows, limit, beams, alpha, kind, expected", CASES)
def test_by_hand(rows, limit, beams, alpha, kind, expected):
    table = np.full((1, bt.prefixes(CAPACITY), bt.VOCABULARY), TINY)
    table[:, :, END] = 1.0
    for prefix, row in rows.items():
        number = bt.number_of(LETTERS[letter] for letter in prefix)
        table[0, number, [A, B, END]] = np.maximum(row, TINY)
    tokens, scores = bt.search(
        np.log(table), [limit], CAPACITY, bt.config(beams, alpha, kind)
    )
    names = {token: letter for letter, token in LETTERS.items()}
    # ln TINY / 4, the largest penalty, is -57.
    found = {
        "".join(names[token] for token in bt.as_tuple(row)): score
        for row, score in zip(tokens[0], scores[0])
        if score > -50
    }
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, abs=1e-5)
