"""Minimum lengths, forced prefixes and early stopping on random tables."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from tests.keras_transformer.decoding import beam_tables as bt

# An example costs its many small operations, however many sentences it has.
SENTENCES = 48
ROOM = 4
SEEDS = st.integers(0, 2**32 - 1)
ALPHAS = [(0.0, "gnmt"), (0.6, "gnmt"), (1.0, "gnmt"), (2.0, "power")]


def drawn(seed):
    """Tables, maxima, minima and prefixes of 0 to 2 words."""
    generator = np.random.default_rng(seed)
    maxima = generator.integers(1, ROOM + 1, SENTENCES)
    minima = generator.integers(0, ROOM + 2, SENTENCES)
    # Words are 1, 2 and 4: 0 is padding and 3 ends.
    prefixes = generator.choice([1, 2, 4], (SENTENCES, 2))
    prefixes[generator.random(SENTENCES) < 0.4, 1] = 0
    prefixes[generator.random(SENTENCES) < 0.3] = 0
    return bt.random_tables(seed, SENTENCES, ROOM), maxima, minima, prefixes


def assert_all_found(tables, found, expected_of, rules):
    for row, table in enumerate(tables):
        log_probs = bt.reader(table)
        bt.assert_finds(
            found[0][row],
            found[1][row],
            expected_of(row, log_probs),
            bt.scorer(log_probs, rules.alpha, rules.length_penalty),
        )


@pytest.mark.parametrize("alpha, kind", ALPHAS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_no_shorter_hypothesis_is_found(alpha, kind, seed):
    tables, maxima, minima, _ = drawn(seed)
    rules = kt.BeamSearchConfig(3, alpha, kind)
    found = bt.search_with(tables, kt.Constraints(maxima, minima), ROOM, rules)

    def expected(row, log_probs):
        return bt.plain_beam_search(
            log_probs, maxima[row], 3, alpha, kind, minima[row]
        )

    assert_all_found(tables, found, expected, rules)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_wide_beam_finds_the_best_that_is_long_enough(seed):
    tables, *_ = drawn(seed)
    rules = kt.BeamSearchConfig(16, 0.6)
    minima = np.full(SENTENCES, 3)
    found = bt.search_with(tables, kt.Constraints(minima, minima), ROOM, rules)

    def expected(_, log_probs):
        return bt.all_hypotheses(log_probs, 3, 0.6, "gnmt", least=3)

    assert_all_found(tables, found, expected, rules)


@pytest.mark.parametrize("alpha, kind", ALPHAS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_hypotheses_begin_with_the_prefix(alpha, kind, seed):
    tables, maxima, minima, prefixes = drawn(seed)
    rules = kt.BeamSearchConfig(2, alpha, kind)
    constraints = kt.Constraints(maxima, minima, prefixes)
    found = bt.search_with(tables, constraints, ROOM, rules)

    def expected(row, log_probs):
        forced = tuple(int(word) for word in prefixes[row] if word)
        return bt.plain_beam_search(
            log_probs, maxima[row], 2, alpha, kind, minima[row], forced
        )

    assert_all_found(tables, found, expected, rules)


@pytest.mark.parametrize("alpha, kind", ALPHAS)
@settings(max_examples=2)
@given(seed=SEEDS)
def test_without_early_stop_the_result_is_the_same(alpha, kind, seed):
    tables, maxima, minima, prefixes = drawn(seed)
    constraints = kt.Constraints(maxima, minima, prefixes)
    rules = kt.BeamSearchConfig(2, alpha, kind)
    patient = dataclasses.replace(rules, stop="never")
    tokens, scores = bt.search_with(tables, constraints, ROOM, rules)
    slow_tokens, slow_scores = bt.search_with(
        tables, constraints, ROOM, patient
    )
    np.testing.assert_array_equal(tokens, slow_tokens)
    np.testing.assert_array_equal(scores, slow_scores)


@pytest.mark.parametrize("stop", ["finished", "likely"])
@settings(max_examples=3)
@given(seed=SEEDS)
def test_a_sentence_may_stop_before_it_is_certain(stop, seed):
    tables, maxima, *_ = drawn(seed)
    rules = kt.BeamSearchConfig(2, stop=stop)
    found = bt.search_with(tables, kt.Constraints(maxima), ROOM, rules)

    def expected(row, log_probs):
        return bt.plain_beam_search(
            log_probs, maxima[row], 2, 0.6, "gnmt", stop=stop
        )

    assert_all_found(tables, found, expected, rules)


@pytest.mark.parametrize("alpha, kind", ALPHAS)
@pytest.mark.parametrize("wanted", [1, 2])
@settings(max_examples=2)
@given(seed=SEEDS)
def test_the_wanted_ones_are_certain(wanted, alpha, kind, seed):
    """Stopping for fewer hypotheses does not change those."""
    tables, maxima, minima, _ = drawn(seed)
    constraints = kt.Constraints(maxima, minima)
    rules = kt.BeamSearchConfig(3, alpha, kind)
    tokens, scores = bt.search_with(tables, constraints, ROOM, rules)
    fewer = dataclasses.replace(rules, n_best=wanted)
    best_tokens, best = bt.search_with(tables, constraints, ROOM, fewer)
    np.testing.assert_array_equal(best_tokens[:, :wanted], tokens[:, :wanted])
    np.testing.assert_array_equal(best[:, :wanted], scores[:, :wanted])


def test_a_maximum_beyond_the_room_is_the_room():
    tables, maxima, *_ = drawn(3)
    rules = kt.BeamSearchConfig(3)
    found = bt.search_with(tables, kt.Constraints(maxima + 50), ROOM, rules)
    room = np.full(SENTENCES, ROOM)
    expected = bt.search_with(tables, kt.Constraints(room), ROOM, rules)
    far = maxima + 50 > ROOM
    assert far.all()
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    assert (found[1][:, 0] > -1e8).all()


def test_a_prefix_without_columns_is_none():
    tables, maxima, *_ = drawn(4)
    rules = kt.BeamSearchConfig(3)
    none = np.zeros((SENTENCES, 0), int)
    found = bt.search_with(
        tables, kt.Constraints(maxima, prefix=none), ROOM, rules
    )
    expected = bt.search_with(tables, kt.Constraints(maxima), ROOM, rules)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)


def test_demands_may_be_tuples():
    """An empty one is what is left out; a full one counts as an array."""
    table = bt.random_tables(5, 2, ROOM)
    arrays = [np.array([3, 4]), np.array([3, 3]), np.array([[4], [2]])]
    rules = kt.BeamSearchConfig(3)
    tokens, _ = bt.search_with(table, kt.Constraints(*arrays), ROOM, rules)
    free, _ = bt.search_with(table, kt.Constraints(arrays[0]), ROOM, rules)
    assert (tokens != free).any()
    nested = [tuple(map(tuple, a)) if a.ndim > 1 else tuple(a) for a in arrays]
    step = bt.step_of(table.astype("float32"))
    numbers = np.zeros((2, rules.beam_size), "int32")
    found = kt.beam_search(step, numbers, kt.Constraints(*nested), ROOM, rules)
    np.testing.assert_array_equal(found.tokens, tokens)
