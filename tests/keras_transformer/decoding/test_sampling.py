"""Sampling on tables: the right distribution, from its own seed alone."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.sampling import uniform
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

ROOM = 3
SAMPLES = 4000
TABLE = bt.random_tables(5, 4, ROOM)


def draw(tables, seeds, limits=None, **rules):
    rules = kt.SamplingConfig(**rules)
    sentences = len(tables)
    if limits is None:
        limits = np.full(sentences, ROOM)
    found = kt.sample(
        bt.step_of(ops.convert_to_tensor(tables)),
        ops.zeros((sentences, rules.samples), dtype="int32"),
        ops.convert_to_tensor(limits, "int32"),
        ROOM,
        ops.convert_to_tensor(seeds, "int32"),
        rules,
    )
    return (
        helpers.to_numpy(found.tokens).astype(int),
        helpers.to_numpy(found.log_probs),
    )


def test_random_numbers_are_uniform_and_independent():
    """Mean, spread and correlations within 5 standard errors."""
    rows, columns = np.arange(300)[:, None], np.arange(300)[None]
    drawn = helpers.to_numpy(
        uniform(
            ops.convert_to_tensor(rows, "int32"),
            ops.convert_to_tensor(columns, "int32"),
            7,
        )
    ).astype("float64")
    assert drawn.min() >= 0 and drawn.max() < 1
    error = 5 / np.sqrt(12 * drawn.size)
    assert abs(drawn.mean() - 0.5) < error
    assert abs(np.var(drawn) - 1 / 12) < error
    for other in (drawn[1:, :], drawn[:, 1:]):
        same = drawn[: len(other), : other.shape[1]]
        correlation = np.corrcoef(same.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(other.size)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_first_tokens_have_the_model_s_probabilities(temperature):
    tokens, _ = draw(
        TABLE, [1, 2, 3, 4], samples=SAMPLES, temperature=temperature
    )
    for row, table in enumerate(TABLE):
        logits = table[0].astype("float64") / temperature
        expected = np.exp(bt.log_softmax(logits))
        found = np.bincount(tokens[row, :, 0], minlength=5) / SAMPLES
        error = np.sqrt(expected * (1 - expected) / SAMPLES)
        assert np.all(np.abs(found - expected) <= 5 * error + 1e-4)


def test_log_probs_are_the_model_s_own():
    tokens, log_probs = draw(
        TABLE, [1, 2, 3, 4], samples=50, temperature=1.7, top_k=3
    )
    for row, table in enumerate(TABLE):
        true_score = bt.scorer(bt.reader(table), 0.0, "gnmt")
        for sample, log_prob in zip(tokens[row], log_probs[row]):
            expected = true_score(bt.as_tuple(sample))
            assert log_prob == pytest.approx(expected, abs=1e-4)


def test_top_k_and_top_p_cut_the_tail():
    first = TABLE[:, 0]
    order = np.argsort(-first, axis=1)
    tokens, _ = draw(TABLE, [1, 2, 3, 4], samples=500, top_k=2)
    for row in range(4):
        assert set(tokens[row, :, 0]) <= set(order[row, :2])
    tokens, _ = draw(TABLE, [1, 2, 3, 4], samples=500, top_p=0.7)
    for row in range(4):
        probabilities = np.exp(bt.log_softmax(first[row]))[order[row]]
        needed = int(np.sum(np.cumsum(probabilities) < 0.7)) + 1
        assert set(tokens[row, :, 0]) <= set(order[row, :needed])
        assert len(set(tokens[row, :, 0])) == needed or needed > 2


def _cut_distribution(logits, top_k=0, top_p=1.0, temperature=1.0):
    """What is left of a distribution after both cuts, in float64."""
    probabilities = np.exp(bt.log_softmax(np.float64(logits) / temperature))
    order = np.argsort(-probabilities, kind="stable")
    for kept in (order[: top_k or None], None):
        if kept is None:
            total = np.cumsum(probabilities[order])
            kept = order[: int(np.sum(total < top_p)) + 1]
        left = np.zeros_like(probabilities)
        left[kept] = probabilities[kept]
        probabilities = left / left.sum()
    return probabilities


@pytest.mark.parametrize(
    "rules",
    [
        {"top_k": 2},
        {"top_k": 4},
        {"top_p": 0.5},
        {"top_p": 0.8},
        {"top_p": 0.75, "temperature": 3.0},
        # Of the three that are left, two have 0.82; of all, 0.7.
        {"top_k": 3, "top_p": 0.8},
        {"top_k": 4, "top_p": 0.6, "temperature": 2.0},
    ],
    ids=str,
)
def test_what_a_cut_leaves_has_the_probability_of_what_it_took(rules):
    """The rest keeps its proportions; none gets all that was cut."""
    logits = np.log([[0.3, 0.1, 0.15, 0.05, 0.4], [0.2, 0.3, 0.1, 0.25, 0.15]])
    tables = np.tile(logits[:, None], (1, bt.prefixes(ROOM), 1))
    tables = tables.astype("float32")
    tokens, _ = draw(tables, [5, 6], samples=SAMPLES, **rules)
    for row in range(2):
        expected = _cut_distribution(logits[row], **rules)
        found = np.bincount(tokens[row, :, 0], minlength=5) / SAMPLES
        error = np.sqrt(expected * (1 - expected) / SAMPLES)
        assert np.all(np.abs(found - expected) <= 4 * error)


def test_nearly_no_temperature_is_greedy():
    tokens, _ = draw(TABLE, [1, 2, 3, 4], samples=3, temperature=1e-6)
    greedy, _ = bt.search(TABLE, [1] * 4, 1, 1)
    assert greedy.shape == (4, 1, 1)
    np.testing.assert_array_equal(
        tokens[:, :, 0], np.repeat(TABLE[:, 0].argmax(1)[:, None], 3, 1)
    )


def test_a_sentence_depends_on_its_own_seed_alone():
    seeds = [11, 12, 13, 14]
    tokens, _ = draw(TABLE, seeds, samples=8)
    for row in range(4):
        alone, _ = draw(TABLE[row : row + 1], seeds[row : row + 1], samples=8)
        np.testing.assert_array_equal(alone[0], tokens[row])
    again, _ = draw(TABLE, seeds, samples=8)
    np.testing.assert_array_equal(again, tokens)
    other, _ = draw(TABLE, [21, 22, 23, 24], samples=8)
    assert np.any(other != tokens)


def test_limits_and_ids_never_drawn():
    tokens, _ = draw(TABLE, [1] * 4, limits=[1, 2, 3, 3], samples=200)
    assert np.all(tokens[0] == [bt.END, 0, 0])
    assert not tokens[1, :, 2:].any()
    for temperature in (1.0, 1e12):
        tokens, _ = draw(
            TABLE, [1] * 4, samples=200, never=(0, 4), temperature=temperature
        )
        assert not np.any(tokens == 4)
    for row in tokens.reshape(-1, ROOM):
        bt.as_tuple(row)


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 0},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": float("nan")},
    ],
)
def test_refuses(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        kt.SamplingConfig(**wrong)
