"""Hand-written gradients and dropout, against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import kernels
from tests.keras_transformer import reference
from tests.keras_transformer.gradients import check_gradients, randoms
from tests.keras_transformer.helpers import to_numpy

ROWS, COLUMNS = 301, 331  # Entries are no multiple of 4.
ONES = np.ones((ROWS, COLUMNS), "float32")
EPSILON = 1e-3


@pytest.fixture(autouse=True)
def _own_gradients(monkeypatch):
    """They are right on every backend, wherever they are used."""
    monkeypatch.setattr(kernels, "USE_FAST_KERNELS", True)


@pytest.mark.parametrize(
    "widths, rows", [((3, 5), (6,)), ((5, 3), (2, 3)), ((4, 4), (2, 3))]
)
def test_linear(widths, rows):
    arrays = [randoms(*rows, widths[0]), randoms(*widths), randoms(widths[1])]

    def in_training(inputs, kernel, bias=None):
        return kernels.linear(inputs, kernel, bias, training=True)

    def formula(inputs, kernel, bias=0.0):
        return inputs @ kernel + bias

    check_gradients(in_training, formula, arrays)
    check_gradients(in_training, formula, arrays[:2])
    for found in (in_training(*arrays), kernels.linear(*arrays)):
        np.testing.assert_allclose(
            to_numpy(found), formula(*arrays), 1e-5, 1e-5
        )


def layer_norm_formula(inputs, gamma, beta):
    rows = inputs.reshape(-1, inputs.shape[-1])
    weights = {"gamma": gamma, "beta": beta}
    normal = reference.layer_norm(weights, rows, EPSILON)
    return normal.reshape(inputs.shape)


def test_layer_norm():
    arrays = [3 + 2 * randoms(2, 3, 6), randoms(6), randoms(6)]
    layer = kernels.LayerNormalization(epsilon=EPSILON)
    layer.build(arrays[0].shape)
    layer.set_weights(arrays[1:])
    expected = layer_norm_formula(*arrays)
    for training in (False, True):
        found = to_numpy(layer(arrays[0], training=training))
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
    check_gradients(
        lambda *tensors: kernels.layer_norm(*tensors, EPSILON),
        layer_norm_formula,
        arrays,
    )


def test_layer_norm_of_half_width_is_computed_in_full():
    inputs = ops.cast(100 + randoms(4, 64), "bfloat16")
    gamma, beta = randoms(64), randoms(64)
    found = kernels.layer_norm(inputs, gamma, beta, EPSILON)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    expected = layer_norm_formula(to_numpy(inputs), gamma, beta)
    np.testing.assert_allclose(to_numpy(found), expected, 1e-2, 1e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_swap_heads_keeps_every_bit(dtype):
    values = randoms(2, 3, 4, 2)
    values[0, 0, 0] = [-0.0, np.nan]
    values[0, 0, 1] = [np.inf, -np.inf]
    values = ops.cast(values, dtype)
    found = kernels.swap_heads(values, differentiable=False)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    expected = to_numpy(values).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(to_numpy(found), expected)
    assert np.signbit(to_numpy(found)[0, 0, 0, 0])


def drop(layer, inputs=ONES, training=True):
    return to_numpy(layer(inputs, training=training))


# From 0.995 on it is Keras' own.
@pytest.mark.parametrize("rate", [0.1, 0.5, 254 / 256, 0.995])
def test_as_many_are_dropped_as_the_rate_says(rate):
    """0.1 of 256 is 25.6, for which both 25 and 26 would be far off."""
    inputs = np.ones((1000, 4001), "float32")
    found = drop(kernels.Dropout(rate, seed=1), inputs)
    kept = found != 0
    # Five standard deviations of a binomial distribution's mean.
    deviation = np.sqrt(rate * (1 - rate) / found.size)
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation
    np.testing.assert_allclose(found[kept], 1 / (1 - rate), rtol=1e-4)


def test_neighbors_are_independent():
    """Four numbers come from one random integer: of each the bits differ."""
    kept = (drop(kernels.Dropout(0.5, seed=2)) != 0).ravel()
    for distance in (1, 2, 3, 4):
        alike = kept[distance:] == kept[:-distance]
        assert abs(alike.mean() - 0.5) < 5 * 0.5 / np.sqrt(alike.size)


def test_each_call_draws_anew_by_the_seed():
    layer, same = (kernels.Dropout(0.5, seed=3) for _ in range(2))
    first, second = drop(layer), drop(layer)
    assert (first != second).mean() > 0.4
    for draw in (first, second):
        np.testing.assert_array_equal(draw, drop(same))
    np.testing.assert_array_equal(drop(layer, training=False), ONES)
    np.testing.assert_array_equal(drop(kernels.Dropout(0.0)), ONES)
