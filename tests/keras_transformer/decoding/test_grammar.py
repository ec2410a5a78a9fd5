"""Searches under a grammar, against brute force on random tables.

A sentence's grammar is an automaton of a few states: which words each allows,
the end among them, and the state after each word.
"""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

SENTENCES = 32
STATES = 3
CAPACITY = 4


class Automaton:
    """A kt.Grammar whose tables are part of its state."""

    def allowed(self, state):
        at = state["at"][..., None, None]
        return ops.take_along_axis(state["allowed"], at, axis=2)[:, :, 0]

    def advance(self, state, tokens):
        at = state["at"][..., None, None]
        row = ops.take_along_axis(state["next"], at, axis=2)[:, :, 0]
        at = ops.take_along_axis(row, tokens[..., None], axis=2)[..., 0]
        return {**state, "at": at}


AUTOMATON = Automaton()


def generate(seed):
    """Tables, limits and grammars; some allow no word, some no end."""
    generator = np.random.default_rng(seed)
    shape = (SENTENCES, STATES, bt.VOCABULARY)
    share = generator.choice([0.3, 0.6, 0.9], (SENTENCES, 1, 1))
    grammar = {
        "at": np.zeros(SENTENCES, "int32"),
        "allowed": generator.random(shape) < share,
        "next": generator.integers(0, STATES, shape).astype("int32"),
    }
    limits = generator.integers(1, CAPACITY + 1, SENTENCES)
    return bt.random_tables(seed, SENTENCES, CAPACITY), limits, grammar


def assert_finds_all(tables, constraints, config, expected_of):
    tokens, scores = bt.search(tables, constraints, CAPACITY, config)
    for row, table in enumerate(tables):
        log_probs = restrict(bt.reader(table), constraints.grammar, row)
        expected = expected_of(row, log_probs)[: config.beam_size]
        bt.assert_finds(
            *(tokens[row], scores[row], expected, log_probs),
            *(config.alpha, config.length_penalty),
        )


def restrict(log_probs, grammar, row):
    """Log-probabilities after a prefix, -inf for what is not allowed."""

    def read(prefix):
        at = 0
        for word in prefix:
            at = grammar["next"][row, at, word]
        allowed = grammar["allowed"][row, at]
        return np.where(allowed, log_probs(prefix), -np.inf)

    return read


@settings(max_examples=5)
@given(seed=bt.SEEDS)
def test_a_wide_beam_finds_all_that_the_grammar_allows(seed):
    tables, limits, grammar = generate(seed)
    limits = np.minimum(limits, 3)

    def expected(row, log_probs):
        return bt.all_hypotheses(log_probs, limits[row], 0.6, "gnmt")

    constraints = kt.Constraints(limits, grammar=grammar)
    config = bt.config(16, grammar=AUTOMATON)
    assert_finds_all(tables, constraints, config, expected)


@pytest.mark.parametrize(
    "beams, alpha, kind", [(1, 0.6, "gnmt"), (2, 1.0, "power"), (4, 0, "gnmt")]
)
@settings(max_examples=3)
@given(seed=bt.SEEDS)
def test_with_minimum_lengths_and_prefixes(beams, alpha, kind, seed):
    tables, limits, grammar = generate(seed)
    generator = np.random.default_rng(seed)
    minima = generator.integers(0, 4, SENTENCES)
    prefixes = generator.choice([0, 1, 2, 4], (SENTENCES, 1))
    prefixes[: SENTENCES // 2] = minima[: SENTENCES // 2] = 0

    def expected(row, log_probs):
        forced = tuple(int(word) for word in prefixes[row] if word)
        return bt.plain_beam_search(
            *(log_probs, limits[row], beams, alpha, kind, minima[row], forced)
        )

    constraints = kt.Constraints(limits, minima, prefixes, grammar)
    config = bt.config(beams, float(alpha), kind, grammar=AUTOMATON)
    assert_finds_all(tables, constraints, config, expected)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow's eager loop runs Python at each step",
)
@pytest.mark.parametrize("stop", ["exact", "k_finished"])
def test_a_sentence_without_allowed_tokens_stops(stop):
    grammar = {
        "at": np.zeros(1, "int32"),
        # Two words, then nothing, not even an end.
        "allowed": np.array([[[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5]]) > 0,
        "next": np.array([[[0, 1, 0, 0, 0], [0, 0, 2, 0, 0], [2] * 5]]),
    }
    calls = []

    def step(tokens, parents, index, state):
        calls.append(int(index))
        return ops.zeros((1, 2, bt.VOCABULARY)), state

    constraints = kt.Constraints(np.array([9]), grammar=grammar)
    config = bt.config(2, stop_criterion=stop, grammar=AUTOMATON)
    tokens, scores, _ = kt.beam_search(
        step, (), bt.as_tensors(constraints), 9, config
    )
    assert calls == [0, 1, 2]
    assert not helpers.to_numpy(tokens).any()
    np.testing.assert_array_equal(helpers.to_numpy(scores), bt.IMPOSSIBLE)


@pytest.mark.parametrize("grammar", [AUTOMATON, None])
def test_a_grammar_needs_its_state(grammar):
    limits = ops.convert_to_tensor([2])
    constraints = kt.Constraints(
        limits, grammar=() if grammar else {"at": limits}
    )
    config = bt.config(grammar=grammar)
    with pytest.raises(ValueError, match="grammar"):
        kt.beam_search(None, (), constraints, 2, config)
