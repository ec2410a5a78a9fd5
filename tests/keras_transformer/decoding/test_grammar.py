"""Searches that a grammar holds, against brute force on random tables.

A sentence's grammar is a machine of a few states: which words each allows, the
end among them, and where each word leads.
"""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding.beam_search import (
    bucketed_beam_search,
    shrinking_batch_beam_search,
)
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

SENTENCES = 32
STATES = 3
SEEDS = st.integers(0, 2**32 - 1)


class Machine:
    """A kt.Grammar whose tables are part of its state."""

    def allowed(self, state):
        at = state["at"][..., None, None]
        return ops.take_along_axis(state["allowed"], at, axis=2)[:, :, 0]

    def advance(self, state, tokens):
        at = state["at"][..., None, None]
        row = ops.take_along_axis(state["next"], at, axis=2)[:, :, 0]
        at = ops.take_along_axis(row, tokens[..., None], axis=2)[..., 0]
        return {**state, "at": at}


MACHINE = Machine()


def drawn(seed, max_length):
    """Tables, limits and grammars; some leave no way on, some no end."""
    generator = np.random.default_rng(seed)
    shape = (SENTENCES, STATES, bt.VOCABULARY)
    share = generator.choice([0.3, 0.6, 0.9], (SENTENCES, 1, 1))
    grammar = {
        "at": np.zeros(SENTENCES, "int32"),
        "allowed": generator.random(shape) < share,
        "next": generator.integers(0, STATES, shape).astype("int32"),
    }
    limits = generator.integers(1, max_length + 1, SENTENCES)
    return bt.random_tables(seed, SENTENCES, max_length), limits, grammar


def held(log_probs, grammar, row):
    """Log-probabilities after a prefix, -inf for what is not allowed."""

    def read(prefix):
        at = 0
        for word in prefix:
            at = grammar["next"][row, at, word]
        allowed = grammar["allowed"][row, at]
        return np.where(allowed, log_probs(prefix), -np.inf)

    return read


def assert_all_found(tables, grammar, found, expected_of, alpha, kind):
    """Holds each sentence to what is expected; nothing else is possible."""
    tokens, scores = found
    for row, table in enumerate(tables):
        log_probs = bt.reader(table)
        expected = [
            hypothesis
            for hypothesis in expected_of(row, held(log_probs, grammar, row))
            if hypothesis[1] > -np.inf
        ][: tokens.shape[1]]
        bt.assert_finds(
            tokens[row],
            scores[row],
            expected,
            bt.scorer(held(log_probs, grammar, row), alpha, kind),
        )
        np.testing.assert_array_equal(
            scores[row, len(expected) :], bt.IMPOSSIBLE
        )
        assert not tokens[row, len(expected) :].any()


@pytest.mark.parametrize("alpha, kind", [(0.0, "gnmt"), (0.6, "gnmt")])
@settings(max_examples=4)
@given(seed=SEEDS)
def test_a_wide_beam_finds_all_that_the_grammar_allows(alpha, kind, seed):
    tables, limits, grammar = drawn(seed, 3)
    rules = kt.BeamSearchConfig(16, alpha, kind, grammar=MACHINE)
    constraints = kt.Constraints(limits, grammar=grammar)
    found = bt.search_with(tables, constraints, 3, rules)

    def expected(row, log_probs):
        return bt.all_hypotheses(log_probs, limits[row], alpha, kind)

    assert_all_found(tables, grammar, found, expected, alpha, kind)


@pytest.mark.parametrize("beams", [1, 2, 4])
@pytest.mark.parametrize("alpha, kind", [(0.6, "gnmt"), (1.0, "power")])
@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_narrow_beam_is_the_documented_one(beams, alpha, kind, seed):
    tables, limits, grammar = drawn(seed, 5)
    rules = kt.BeamSearchConfig(beams, alpha, kind, grammar=MACHINE)
    constraints = kt.Constraints(limits, grammar=grammar)
    found = bt.search_with(tables, constraints, 5, rules)

    def expected(row, log_probs):
        return bt.plain_beam_search(log_probs, limits[row], beams, alpha, kind)

    assert_all_found(tables, grammar, found, expected, alpha, kind)


@settings(max_examples=3)
@given(seed=SEEDS)
def test_it_goes_together_with_minimum_lengths_and_prefixes(seed):
    tables, limits, grammar = drawn(seed, 4)
    generator = np.random.default_rng(seed)
    minima = generator.integers(0, 4, SENTENCES)
    prefixes = generator.choice([0, 1, 2, 4], (SENTENCES, 1))
    rules = kt.BeamSearchConfig(3, grammar=MACHINE)
    constraints = kt.Constraints(limits, minima, prefixes, grammar)
    found = bt.search_with(tables, constraints, 4, rules)

    def expected(row, log_probs):
        forced = tuple(int(word) for word in prefixes[row] if word)
        return bt.plain_beam_search(
            log_probs, limits[row], 3, 0.6, "gnmt", minima[row], forced
        )

    assert_all_found(tables, grammar, found, expected, 0.6, "gnmt")


@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_sentence_is_the_same_alone_and_in_a_batch(seed):
    tables, limits, grammar = drawn(seed, 4)
    rules = kt.BeamSearchConfig(2, grammar=MACHINE)
    tokens, scores = bt.search_with(
        tables, kt.Constraints(limits, grammar=grammar), 4, rules
    )
    for row in range(0, SENTENCES, 5):
        one = slice(row, row + 1)
        alone = {name: values[one] for name, values in grammar.items()}
        lone_tokens, lone_scores = bt.search_with(
            tables[one], kt.Constraints(limits[one], grammar=alone), 4, rules
        )
        np.testing.assert_array_equal(lone_tokens[0], tokens[row])
        np.testing.assert_allclose(lone_scores[0], scores[row], rtol=1e-6)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_the_search_in_stages_finds_the_same(seed):
    tables, limits, grammar = drawn(seed, 5)
    rules = kt.BeamSearchConfig(3, grammar=MACHINE)
    constraints = kt.Constraints(limits, grammar=grammar)
    expected = bt.search_with(tables, constraints, 5, rules)
    run = helpers.jitted(
        lambda tables, constraints: bucketed_beam_search(
            bt.step_of(tables),
            ops.zeros((SENTENCES, 3), dtype="int32"),
            constraints,
            [1, 3, 5],
            rules,
            lambda state, capacity: state,
        )[:2]
    )
    found = run(ops.convert_to_tensor(tables), bt.as_tensors(constraints))
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(helpers.to_numpy(ours), theirs, rtol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs"
)
@pytest.mark.parametrize("segment", [1, 3])
@settings(max_examples=2)
@given(seed=SEEDS)
def test_the_search_that_sentences_leave_finds_the_same(segment, seed):
    import tensorflow as tf

    tables, limits, grammar = drawn(seed, 5)
    rules = kt.BeamSearchConfig(3, grammar=MACHINE)
    constraints = kt.Constraints(limits, grammar=grammar)
    expected = bt.search_with(tables, constraints, 5, rules)

    def step(tokens, parents, index, state):
        tables, numbers = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers)

    def run(tables, constraints):
        beams = tf.zeros((tf.shape(tables)[0], 3), "int32")
        return shrinking_batch_beam_search(
            *(step, (tables, beams), constraints, tf.constant(5), rules),
            *(segment, lambda state, capacity: state),
        )[:2]

    # How many sentences there are must be open.
    given = tf.constant(tables), bt.as_tensors(constraints)
    specs = tree.map_structure(
        lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype), given
    )
    found = tf.function(run, input_signature=specs, autograph=False)(*given)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow's eager loop runs Python at each step",
)
@pytest.mark.parametrize("stop", ["certain", "finished"])
def test_a_sentence_without_a_way_on_stops(stop):
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

    tokens, scores, _ = kt.beam_search(
        step,
        (),
        bt.as_tensors(kt.Constraints(np.array([9]), grammar=grammar)),
        9,
        kt.BeamSearchConfig(2, stop=stop, grammar=MACHINE),
    )
    assert calls == [0, 1, 2]
    assert not helpers.to_numpy(tokens).any()
    np.testing.assert_array_equal(helpers.to_numpy(scores), bt.IMPOSSIBLE)


@pytest.mark.parametrize("which", ["grammar", "state"])
def test_a_grammar_and_its_state_go_together(which):
    limits = ops.convert_to_tensor([2])
    rules = kt.BeamSearchConfig(grammar=MACHINE if which == "grammar" else None)
    state = {"at": limits} if which == "state" else ()
    with pytest.raises(ValueError, match="go together"):
        kt.beam_search(
            None, (), kt.Constraints(limits, grammar=state), 2, rules
        )
