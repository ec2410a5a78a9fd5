"""Sinusoidal and learned positions."""

import math

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, reference


@pytest.mark.parametrize(
    ("d_model", "rates"),
    [(2, "paper"), (6, "paper"), (512, "paper"), (6, "marian"), (64, "marian")],
)
def test_sinusoid_equals_the_formula(d_model, rates):
    layer = kt.SinusoidalPositionEncoding(rates)
    layer.build((None, None, d_model))
    positions = [0, 1, 2, 127, 128, 129, 999, 1000, 5000, 12_345, 16_383]
    actual = helpers.to_numpy(layer.encode(np.array(positions, "int32")))
    expected = [
        reference.sinusoid(place, d_model, rates) for place in positions
    ]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=4e-7)


def test_sinusoid_by_hand():
    """Position 3 of width 4: angles 3 and 3 / 100, sine and cosine in turn."""
    layer = kt.SinusoidalPositionEncoding()
    outputs = helpers.to_numpy(layer(np.ones((1, 4, 4), "float32")))
    by_hand = [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]
    np.testing.assert_allclose(outputs[0, 3] - 1, by_hand, atol=4e-7)
    np.testing.assert_allclose(outputs[0, 0] - 1, [0, 1, 0, 1], atol=1e-7)


def test_sinusoid_of_given_positions():
    layer = kt.SinusoidalPositionEncoding()
    inputs = np.zeros((2, 3, 8), "float32")
    positions = np.array([[0, 1, 0], [5, 6, 7]], "int32")
    actual = helpers.to_numpy(layer(inputs, positions))
    for place in np.ndindex(2, 3):
        expected = reference.sinusoid(positions[place], 8)
        np.testing.assert_allclose(actual[place], expected, atol=4e-7)


def test_learned_positions():
    layer = kt.LearnedPositionEmbedding(5)
    inputs = np.ones((2, 3, 8), "float32")
    layer.build(inputs.shape)
    table = helpers.to_numpy(layer.embeddings)
    assert table.shape == (5, 8)
    actual = helpers.to_numpy(layer(inputs))
    np.testing.assert_allclose(actual, 1 + table[None, :3][[0, 0]], rtol=1e-6)
    positions = np.array([[4, 0, 1]], "int32")
    actual = helpers.to_numpy(layer(inputs, positions))
    np.testing.assert_allclose(actual, 1 + table[positions[[0, 0]]], rtol=1e-6)


def test_learned_positions_refuse_a_longer_sequence():
    layer = kt.LearnedPositionEmbedding(5)
    with pytest.raises(ValueError, match="raise max_positions"):
        layer(np.ones((1, 6, 8), "float32"))
