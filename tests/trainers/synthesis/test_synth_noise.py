"""Noise: what it may do, that it is drawn, and what it depends on."""

import dataclasses

import numpy as np
import pytest

from tests.trainers.synthesis.jobs import OPTIONS
from trainers.synthesis.noise import add_noise, drop_words, swap_words

WORDS = [f"w{number}" for number in range(12)]
TEXT = " ".join(WORDS)


def add(text, number=0, **changes):
    return add_noise(text, number, dataclasses.replace(OPTIONS, **changes))


@pytest.mark.parametrize("places", [0, 1, 3])
def test_a_word_moves_by_no_more_than_so_many_places(places):
    moved = []
    for seed in range(300):
        found = swap_words(WORDS, places, np.random.default_rng(seed))
        assert sorted(found) == sorted(WORDS)
        moved += [abs(found.index(w) - i) for i, w in enumerate(WORDS)]
    assert max(moved) == places


def test_words_are_left_out_as_often_as_asked():
    kept = sum(
        len(drop_words(WORDS, 0.25, np.random.default_rng(seed)))
        for seed in range(1000)
    )
    # Six standard deviations of a binomial of 12,000.
    assert abs(kept - 9000) < 6 * (12_000 * 0.25 * 0.75) ** 0.5


def test_one_word_stays_and_each_may():
    found = [
        drop_words(WORDS, 1.0, np.random.default_rng(seed))
        for seed in range(300)
    ]
    assert {len(words) for words in found} == {1}
    assert {words[0] for words in found} == set(WORDS)


def test_noise_is_of_seed_and_line_alone():
    noise = {"word_drop": 0.2, "word_swap": 3}
    assert add(TEXT, 7, **noise) == add(TEXT, 7, **noise)
    others = {
        add(TEXT, number, seed=seed, **noise)
        for number in range(5)
        for seed in range(5)
    }
    assert len(others) == 25


def test_a_tag_comes_first_and_is_never_left_out():
    assert add("a b", tag="<bt>") == "<bt> a b"
    assert add("a b", tag="<bt>", word_drop=1.0) in ("<bt> a", "<bt> b")


def test_without_noise_a_source_is_as_it_was():
    assert add("a  b\u00a0c") == "a  b\u00a0c"
