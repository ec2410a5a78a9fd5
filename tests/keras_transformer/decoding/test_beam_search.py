"""Beam search on random tables against two independent searches."""

import dataclasses
import operator

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding.beam_search import best_candidates
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt


@pytest.mark.parametrize(
    "alpha, kind, grammar",
    [(-1.0, "power", None), (0.6, "gnmt", bt.AUTOMATON), (1.0, "power", None)],
)
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_a_wide_beam_finds_the_very_best(alpha, kind, grammar, seed):
    """16 beams hold all 1 + 4 + 16 = 21 hypotheses of 3 tokens while alive.

    4 prefixes are alive after one step and 16 after two; what ends is among
    the 32 best continuations of at most 20. So the 16 best are exact.
    """
    tables, constraints = bt.generate(seed, grammar)
    maxima, minima = np.minimum(constraints.max_lengths, 3), constraints[1]
    constraints = constraints._replace(max_lengths=maxima, prefix=())

    def expected(row, log_probs):
        least = min(minima[row], maxima[row])
        return bt.all_hypotheses(log_probs, maxima[row], alpha, kind, least)

    config = bt.config(16, alpha, kind, grammar=grammar)
    bt.assert_finds_all(tables, constraints, config, expected)


@pytest.mark.parametrize(
    "beams, alpha, kind, grammar",
    [
        (1, 0.6, "gnmt", None),
        (2, 0.0, "gnmt", bt.AUTOMATON),
        (2, 8.0, "power", None),
        (2, -0.5, "power", None),
        (4, 1.0, "gnmt", bt.AUTOMATON),
    ],
)
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_a_narrow_beam_follows_the_rule(beams, alpha, kind, grammar, seed):
    """With minimum lengths and prefixes; stopping changes no result."""
    tables, constraints = bt.generate(seed, grammar)
    maxima, minima, prefixes, *_ = constraints

    def expected(row, log_probs):
        forced = tuple(int(word) for word in prefixes[row] if word)
        return bt.plain_beam_search(
            *(log_probs, maxima[row], beams, alpha, kind, minima[row], forced)
        )

    config = bt.config(beams, alpha, kind, grammar=grammar)
    bt.assert_finds_all(tables, constraints, config, expected)
    # A search for the best alone stops earlier.
    tokens, scores = bt.search(tables, constraints, bt.CAPACITY, config)
    few = dataclasses.replace(config, n_best=1)
    found = bt.search(tables, constraints, bt.CAPACITY, few)
    np.testing.assert_array_equal(found[0][:, :1], tokens[:, :1])
    np.testing.assert_array_equal(found[1][:, :1], scores[:, :1])


@pytest.mark.parametrize("stop", ["k_finished", "heuristic"])
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_other_stop_criteria(stop, seed):
    tables, (maxima, *_) = bt.generate(seed)

    def expected(row, log_probs):
        return bt.plain_beam_search(
            *(log_probs, maxima[row], 2, 0.6, "gnmt"), stop=stop
        )

    config = bt.config(2, stop_criterion=stop)
    constraints = kt.Constraints(maxima)
    bt.assert_finds_all(tables, constraints, config, expected)


@pytest.mark.parametrize(
    "size, penalty",
    [(1, 1.0), (2, 1.0), (3, 1.0), (0, 1.7), (0, 0.4), (2, 2.0)],
)
@pytest.mark.parametrize("beams", [2, 16])
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_repetition_is_penalized(size, penalty, beams, seed):
    """As in every hypothesis, or in a narrow beam by its rule."""
    tables, (maxima, *_) = bt.generate(seed)
    maxima = np.minimum(maxima, 3) if beams > 2 else maxima

    def expected(row, log_probs):
        if beams > 2:
            return bt.all_hypotheses(log_probs, maxima[row], 0.6, "gnmt")
        return bt.plain_beam_search(log_probs, maxima[row], beams, 0.6, "gnmt")

    config = bt.config(
        beams,
        suppress_tokens=(0,),
        no_repeat_ngram_size=size,
        repetition_penalty=penalty,
    )
    bt.assert_finds_all(tables, kt.Constraints(maxima), config, expected)


def test_a_sentence_is_the_same_alone_and_in_a_batch():
    tables, constraints = bt.generate(3, bt.AUTOMATON)
    config = bt.config(2, grammar=bt.AUTOMATON)
    tokens, scores = bt.search(tables, constraints, bt.CAPACITY, config)
    for row in range(0, bt.SENTENCES, 12):
        one = slice(row, row + 1)
        alone = tree.map_structure(operator.itemgetter(one), constraints)
        found = bt.search(tables[one], alone, bt.CAPACITY, config)
        bt.assert_same(found, (tokens[one], scores[one]))


def test_capacity_beyond_the_maximum_changes_nothing():
    """Nor does a maximum beyond the capacity."""
    tables, config = bt.generate(4)[0], bt.config(2)
    maxima = np.full(bt.SENTENCES, 3)
    tokens, scores = bt.search(tables, maxima, bt.CAPACITY, config)
    few = tables[:, : bt.prefixes(3)]
    short = bt.search(few, maxima + 50, 3, config)
    bt.assert_same((tokens[..., :3], scores), short)
    assert not tokens[..., 3:].any()


def test_a_suppressed_end_comes_only_at_the_maximum_length():
    config = bt.config(3, suppress_tokens=(bt.END,))
    tables = bt.random_tables(6, bt.SENTENCES, 3)
    tokens, scores = bt.search(tables, [3] * bt.SENTENCES, 3, config)
    assert (scores > -1e8).all()
    assert (tokens[..., 2] == bt.END).all()
    assert not (tokens[..., :2] == bt.END).any()


def test_constraints_may_be_empty_or_tuples():
    tables, config = bt.random_tables(5, 2, bt.CAPACITY), bt.config(3)

    def find(*constraints):
        step, start = bt.step_of(tables), np.zeros((2, 3), "int32")
        return kt.beam_search(
            step, start, kt.Constraints(*constraints), bt.CAPACITY, config
        )

    free = find((3, 4))
    bt.assert_same(find((3, 4), (), np.zeros((2, 0), int)), free)
    constrained = find((3, 4), (3, 3), ((4,), (2,)))
    assert (helpers.to_numpy(free[0]) != helpers.to_numpy(constrained[0])).any()


def test_logits_of_half_width_are_searched_in_float32():
    half = ops.cast(bt.random_tables(3, 4, 4), "bfloat16")
    config = bt.config(2)
    expected = bt.search(helpers.to_numpy(half), [4] * 4, 4, config)
    start = ops.zeros((4, 2), dtype="int32")
    limits = ops.convert_to_tensor([4] * 4, "int32")
    found = kt.beam_search(bt.step_of(half), start, limits, 4, config)
    bt.assert_same(found, expected)


# Two words, then nothing, not even an end.
DEAD_END = {
    "at": np.zeros(1, "int32"),
    "allowed": np.array([[[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5]]) > 0,
    "next": np.array([[[0, 1, 0, 0, 0], [0, 0, 2, 0, 0], [2] * 5]]),
}


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow's eager loop runs Python at each step",
)
@pytest.mark.parametrize(
    "end_logit, grammar, steps",
    # Two finished hypotheses that no live one can beat end the search.
    [(9.0, (), 2), (-9.0, (), 6), (-9.0, DEAD_END, 3)],
)
@pytest.mark.parametrize("stop", ["exact", "k_finished"])
def test_does_stop_early(stop, end_logit, grammar, steps):
    calls = []

    def step(tokens, parents, index, state):
        calls.append(int(index))
        row = ops.convert_to_tensor([0.0, -1.0, -9.0, end_logit, -2.0])
        return ops.broadcast_to(row, (1, 2, 5)), state

    config = bt.config(
        2, stop_criterion=stop, grammar=bt.AUTOMATON if grammar else None
    )
    constraints = bt.as_tensors(kt.Constraints(np.array([6]), (), (), grammar))
    _, scores, _ = kt.beam_search(step, (), constraints, 6, config)
    assert calls == list(range(steps))
    possible = helpers.to_numpy(scores)[0, 0] > bt.IMPOSSIBLE
    assert possible == (not grammar)


@pytest.mark.parametrize("grammar", [bt.AUTOMATON, None])
def test_a_grammar_needs_its_state(grammar):
    limits = ops.convert_to_tensor([2])
    constraints = kt.Constraints(
        limits, grammar=() if grammar else {"at": limits}
    )
    config = bt.config(grammar=grammar)
    with pytest.raises(ValueError, match="grammar"):
        kt.beam_search(None, (), constraints, 2, config)
    with pytest.raises(ValueError, match="max_length"):
        kt.beam_search(None, (), limits, 0, config)


@pytest.mark.parametrize(
    "vocabulary, spread, head_start, beams, end_rank",
    # Divisible by 32, by 37 only, prime, fewer than asked for; suppressed
    # tokens are likelier than all others, or not.
    [
        (640, 3.0, 0.0, 4, 4),
        (640, 3.0, 10.0, 4, 8),
        (999, 3.0, 10.0, 4, 8),
        (997, 20.0, 0.0, 1, 2),
        (6, 1.0, 10.0, 4, 8),
        (640, 0.0, 0.0, 4, 4),
    ],
)
def test_candidates_are_the_best_of_all_sorted(
    vocabulary, spread, head_start, beams, end_rank
):
    generator = np.random.default_rng(vocabulary)
    batch, suppressed = 5, (0, 1, 2)
    logits = spread * generator.normal(size=(batch, beams, vocabulary))
    logits[..., list(suppressed)] += head_start
    # Exact ties are cut anywhere: none here, but for the flat case.
    logits = logits.astype("float32")
    live = np.sort(-generator.random((batch, beams)).astype("float32"))[:, ::-1]
    found = best_candidates(
        ops.convert_to_tensor(logits),
        ops.convert_to_tensor(live.copy()),
        end_rank,
        suppressed,
    )
    log_probs = live[..., None] + bt.log_softmax(logits)
    log_probs[..., list(suppressed)] = -np.inf
    ends = log_probs[..., bt.END].copy()
    best = np.sort(log_probs.reshape(batch, -1))[:, ::-1]
    log_probs[..., bt.END] = -np.inf
    continuing = log_probs.reshape(batch, -1)
    expected = np.sort(continuing)[:, ::-1][:, :beams]
    actual, places, tokens, actual_ends, may_end = map(
        helpers.to_numpy,
        (
            *(found.log_probs, found.parents, found.tokens),
            *(found.end_log_probs, found.may_end),
        ),
    )
    # Of 6 tokens 2 may follow each beam.
    real = np.isfinite(expected)
    places = (places * vocabulary + tokens).astype(int)
    chosen = np.take_along_axis(continuing, places, axis=1)
    for each in (actual, chosen):
        np.testing.assert_allclose(each[real], expected[real], 1e-5, 1e-5)
    np.testing.assert_allclose(actual_ends, ends, 1e-5, 1e-5)
    if spread:
        least = best[:, end_rank - 1 : end_rank] - 1e-6
        np.testing.assert_array_equal(may_end, ends >= least)
