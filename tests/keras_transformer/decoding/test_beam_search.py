"""Beam search on random tables against two independent searches."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

# An example costs its many small operations, however many sentences it has.
SENTENCES = 48
SEEDS = st.integers(0, 2**32 - 1)
PENALTIES = [(0.0, "gnmt"), (0.6, "gnmt"), (1.0, "gnmt"), (1.0, "power")]


def random_limits(seed, max_length):
    """Each sentence its own maximum length."""
    generator = np.random.default_rng(seed + 1)
    return generator.integers(1, max_length + 1, SENTENCES)


@pytest.mark.parametrize("alpha, kind", [*PENALTIES, (0.6, "power")])
@settings(max_examples=3)
@given(seed=SEEDS)
def test_wide_enough_a_beam_finds_the_very_best(alpha, kind, seed):
    """16 beams hold all 1 + 4 + 16 = 21 hypotheses of 3 tokens while alive.

    4 prefixes are alive after one step and 16 after two; what ends is among
    the 32 best continuations of at most 20. So the 16 best are exact.
    """
    tables, lengths = (
        bt.random_tables(seed, SENTENCES, 3),
        random_limits(seed, 3),
    )
    tokens, scores = bt.search(tables, lengths, 3, 16, alpha, kind)
    for row, table in enumerate(tables):
        log_probs = bt.reader(table)
        every = bt.all_hypotheses(log_probs, lengths[row], alpha, kind)
        bt.assert_finds(
            tokens[row],
            scores[row],
            every[:16],
            bt.scorer(log_probs, alpha, kind),
        )


@pytest.mark.parametrize("alpha, kind", PENALTIES)
@pytest.mark.parametrize("beams", [1, 2, 4])
@settings(max_examples=2)
@given(seed=SEEDS)
def test_stopping_early_never_changes_the_result(beams, alpha, kind, seed):
    tables, lengths = (
        bt.random_tables(seed, SENTENCES, 5),
        random_limits(seed, 5),
    )
    tokens, scores = bt.search(tables, lengths, 5, beams, alpha, kind)
    for row, table in enumerate(tables):
        log_probs = bt.reader(table)
        bt.assert_finds(
            tokens[row],
            scores[row],
            bt.plain_beam_search(log_probs, lengths[row], beams, alpha, kind),
            bt.scorer(log_probs, alpha, kind),
        )


@settings(max_examples=2)
@given(seed=SEEDS)
def test_a_sentence_is_the_same_alone_and_in_a_batch(seed):
    tables, lengths = (
        bt.random_tables(seed, SENTENCES, 5),
        random_limits(seed, 5),
    )
    tokens, scores = bt.search(tables, lengths, 5, 2)
    for row in range(0, SENTENCES, 4):
        one = slice(row, row + 1)
        lone_tokens, lone_scores = bt.search(tables[one], lengths[one], 5, 2)
        np.testing.assert_array_equal(lone_tokens[0], tokens[row])
        np.testing.assert_allclose(lone_scores[0], scores[row], rtol=1e-6)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_room_for_more_tokens_changes_nothing(seed):
    tables, lengths = (
        bt.random_tables(seed, SENTENCES, 5),
        random_limits(seed, 3),
    )
    tokens, scores = bt.search(tables, lengths, 5, 2)
    few = tables[:, : bt.prefixes(3)]
    short_tokens, short_scores = bt.search(few, lengths, 3, 2)
    np.testing.assert_array_equal(tokens[..., :3], short_tokens)
    np.testing.assert_array_equal(tokens[..., 3:], 0)
    np.testing.assert_allclose(scores, short_scores, rtol=1e-6)


@settings(max_examples=2)
@given(seed=SEEDS)
def test_what_has_ended_is_not_continued(seed):
    """After an end the table promises a free way on: nobody may take it."""
    tables, lengths = (
        bt.random_tables(seed, SENTENCES, 4),
        random_limits(seed, 4),
    )
    baited = tables.copy()
    for prefix in range(bt.prefixes(3)):
        ended = bt.VOCABULARY * prefix + bt.END + 1
        baited[:, ended] = [-50, -50, -50, 0, 50]
    expected = bt.search(tables, lengths, 4, 3, 1.0)
    actual = bt.search(baited, lengths, 4, 3, 1.0)
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_array_equal(actual[1], expected[1])


def test_there_may_be_fewer_hypotheses_than_beams():
    """Of 1 token there is 1 hypothesis, of at most 2 there are 5."""
    tables = bt.random_tables(7, 2, 3)
    limits = [1, 2]
    tokens, scores = bt.search(tables, limits, 3, 8)
    for row, possible in enumerate([1, 5]):
        log_probs = bt.reader(tables[row])
        every = bt.all_hypotheses(log_probs, limits[row], 0.6, "gnmt")
        assert len(every) == possible
        bt.assert_finds(
            tokens[row],
            scores[row],
            every,
            bt.scorer(log_probs, 0.6, "gnmt"),
        )
        np.testing.assert_array_equal(scores[row, possible:], bt.IMPOSSIBLE)
        np.testing.assert_array_equal(tokens[row, possible:], 0)


def test_logits_of_half_width_are_searched_in_float32():
    half = ops.cast(bt.random_tables(3, 4, 4), "bfloat16")
    tables = helpers.to_numpy(half)
    expected_tokens, expected = bt.search(tables, [4] * 4, 4, 2)
    tokens, scores, *_ = kt.beam_search(
        bt.step_of(half),
        ops.zeros((4, 2), dtype="int32"),
        ops.convert_to_tensor([4] * 4, "int32"),
        4,
        kt.BeamSearchConfig(beam_size=2),
    )
    np.testing.assert_array_equal(helpers.to_numpy(tokens), expected_tokens)
    np.testing.assert_allclose(helpers.to_numpy(scores), expected, rtol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow's eager loop runs Python at each step",
)
@pytest.mark.parametrize("end_logit, steps", [(9.0, 2), (-9.0, 6)])
def test_does_stop_early(end_logit, steps):
    """Two finished hypotheses that nothing live can beat end the search."""
    calls = []

    def step(tokens, parents, index, state):
        calls.append(int(index))
        row = ops.convert_to_tensor([0.0, -1.0, -9.0, end_logit, -2.0])
        return ops.broadcast_to(row, (1, 2, 5)), state

    kt.beam_search(
        step,
        ops.zeros(()),
        ops.convert_to_tensor([6], "int32"),
        6,
        kt.BeamSearchConfig(beam_size=2),
    )
    assert calls == list(range(steps))


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"beam_size": 0}, "beam_size"),
        ({"alpha": -0.1}, "alpha"),
        ({"n_best": 5}, "n_best"),
        ({"stop": "soon"}, "stop"),
        ({"length_penalty": "none"}, "length_penalty"),
    ],
)
def test_refuses(wrong, named):
    tables = ops.convert_to_tensor(bt.random_tables(0, 1, 2))
    with pytest.raises(ValueError, match=named):
        kt.beam_search(
            bt.step_of(tables),
            ops.zeros((1, 4), dtype="int32"),
            ops.convert_to_tensor([2], "int32"),
            2,
            kt.BeamSearchConfig(**wrong),
        )
