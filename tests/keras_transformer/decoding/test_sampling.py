"""Sampling: the right distribution, from each sentence's own seed alone."""

import functools
import types

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.sampling import hash_to_uniform
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

PAD, END = 0, 3
CAPACITY = 3
SAMPLES = 4000
TABLE = bt.random_tables(5, 4, CAPACITY)
SEEDS = [1, 2, 3, 4]


def sample(tables, seeds, limits=None, **settings):
    config = kt.SamplingConfig(**{"suppress_tokens": (), **settings})
    start = ops.zeros((len(tables), config.samples), dtype="int32")
    decoder = types.SimpleNamespace(
        step=bt.step_of(ops.convert_to_tensor(tables)),
        start=lambda source, max_length: start,
    )
    found = kt.sample_ids(
        types.SimpleNamespace(beam_decoder=lambda samples: decoder),
        None,
        CAPACITY,
        ops.convert_to_tensor(seeds, "int32"),
        config,
        limits or [CAPACITY] * len(tables),
    )
    return (
        helpers.to_numpy(found.tokens).astype(int),
        helpers.to_numpy(found.log_probs),
    )


def test_random_numbers_are_uniform_and_independent():
    """Mean, spread and correlations within 5 standard errors."""
    rows, columns = np.arange(300)[:, None], np.arange(300)[None]
    drawn = hash_to_uniform(
        ops.convert_to_tensor(rows, "int32"),
        ops.convert_to_tensor(columns, "int32"),
        7,
    )
    drawn = helpers.to_numpy(drawn)
    assert drawn.min() >= 0 and drawn.max() < 1
    error = 5 / np.sqrt(12 * drawn.size)
    assert abs(drawn.mean() - 0.5) < error
    assert abs(np.var(drawn) - 1 / 12) < error
    for other in (drawn[1:, :], drawn[:, 1:]):
        same = drawn[: len(other), : other.shape[1]]
        correlation = np.corrcoef(same.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(other.size)


def test_first_tokens_have_the_probabilities_of_the_model():
    tokens, _ = sample(TABLE, SEEDS, samples=SAMPLES, temperature=2.0)
    for row, table in enumerate(TABLE):
        logits = table[0].astype("float64") / 2.0
        expected = np.exp(bt.log_softmax(logits))
        found = np.bincount(tokens[row, :, 0], minlength=5) / SAMPLES
        error = np.sqrt(expected * (1 - expected) / SAMPLES)
        assert np.all(np.abs(found - expected) <= 5 * error + 1e-4)


def test_log_probs_are_those_of_the_model():
    tokens, log_probs = sample(
        TABLE, SEEDS, samples=50, temperature=1.7, top_k=3
    )
    for row, table in enumerate(TABLE):
        for sampled, log_prob in zip(tokens[row], log_probs[row]):
            expected = bt.score_of(
                bt.as_tuple(sampled), bt.reader(table), 0.0, "gnmt"
            )
            assert log_prob == pytest.approx(expected, abs=1e-4)


def test_a_sentence_depends_on_its_own_seed_alone():
    tokens, _ = sample(TABLE, SEEDS, samples=8)
    for row in range(4):
        alone, _ = sample(TABLE[row : row + 1], [SEEDS[row]], samples=8)
        np.testing.assert_array_equal(alone[0], tokens[row])
    np.testing.assert_array_equal(sample(TABLE, SEEDS, samples=8)[0], tokens)
    other, _ = sample(TABLE, [21, 22, 23, 24], samples=8)
    assert np.any(other != tokens)


def test_limits_and_suppressed_tokens():
    tokens, _ = sample(
        *(TABLE, SEEDS, [1, 2, 3, 3]),
        samples=200,
        suppress_tokens=(0, 4),
        temperature=1e12,
    )
    assert np.all(tokens[0] == [END, PAD, PAD])
    assert not tokens[1, :, 2:].any()
    assert not np.any(tokens == 4)
    for row in tokens.reshape(-1, CAPACITY):
        bt.as_tuple(row)


def test_samples_of_a_transformer():
    """Nearly any token is as likely at a high temperature, none but these."""
    more = 4, 10
    suppressed = kt.SamplingConfig().suppress_tokens
    config = kt.SamplingConfig(300, 1e6, suppress_tokens=suppressed + more)
    source = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0]], "int32")
    run = functools.partial(
        kt.sample_ids, helpers.variant("paper"), max_length=6, config=config
    )
    found = helpers.jitted(run)(
        source=ops.convert_to_tensor(source),
        seeds=ops.convert_to_tensor([3, 4], "int32"),
        max_lengths=ops.convert_to_tensor([6, 4], "int32"),
    )
    tokens = helpers.to_numpy(found.tokens).astype(int)
    words = set(tokens.ravel().tolist()) - {PAD, END}
    assert words == set(range(4, 11)) - set(more)
    assert np.count_nonzero(tokens, axis=2).max(axis=1).tolist() == [6, 4]
