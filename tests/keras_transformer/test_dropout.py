"""Dropout in the scope of what is not compiled; outside it is Keras' own."""

import keras
import numpy as np
import pytest

from keras_transformer.layers.dropout import Dropout, dropout
from keras_transformer.uncompiled import uncompiled
from tests.keras_transformer.gradients import gradients_by_arrays
from tests.keras_transformer.helpers import to_numpy

ROWS, COLUMNS = 301, 333  # An odd number of entries.
ONES = np.ones((ROWS, COLUMNS), "float32")


def drawn(layer, inputs=ONES, training=True):
    with uncompiled():
        return to_numpy(layer(inputs, training=training))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_dropped_as_the_rate_says(rate):
    found = drawn(Dropout(rate, seed=1))
    kept = found != 0
    # Five standard deviations of a binomial distribution's mean.
    deviation = np.sqrt(rate * (1 - rate) / found.size)
    assert abs(kept.mean() - (1 - rate)) < 5 * deviation
    np.testing.assert_allclose(found[kept], 1 / (1 - rate), rtol=1e-3)
    assert found.mean() == pytest.approx(1.0, abs=5 * deviation / (1 - rate))


def test_neighbours_are_independent():
    """Two numbers come from one random integer: of each the bits differ."""
    kept = (drawn(Dropout(0.5, seed=2)) != 0).ravel()
    for distance in (1, 2, 3):
        alike = kept[distance:] == kept[:-distance]
        assert abs(alike.mean() - 0.5) < 5 * 0.5 / np.sqrt(alike.size)
    places = np.arange(kept.size) % 2
    for half in (kept[places == 0], kept[places == 1]):
        assert abs(half.mean() - 0.5) < 5 * 0.5 / np.sqrt(half.size)


def test_each_call_draws_anew_and_a_seed_says_what():
    layer, same = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    first, second = drawn(layer), drawn(layer)
    assert (first != second).mean() > 0.4
    np.testing.assert_array_equal(first, drawn(same))
    np.testing.assert_array_equal(second, drawn(same))


def test_nothing_is_dropped_but_in_training():
    np.testing.assert_array_equal(drawn(Dropout(0.5), training=False), ONES)
    np.testing.assert_array_equal(drawn(Dropout(0.0)), ONES)


def test_an_extreme_rate_gives_numbers():
    found = drawn(Dropout(0.999999, seed=4))
    assert np.isfinite(found).all()
    assert (found == 0).mean() > 0.999


def test_shape_and_dtype_stay():
    inputs = keras.ops.ones((2, 3, 5), "bfloat16")
    with uncompiled():
        found = Dropout(0.5, dtype="bfloat16")(inputs, training=True)
    assert tuple(found.shape) == (2, 3, 5)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"


def test_what_is_dropped_has_no_gradient():
    inputs = np.linspace(1, 2, 35, dtype="float32").reshape(5, 7)
    [gradient] = gradients_by_arrays(
        lambda values: keras.ops.sum(dropout(values, 0.5, seed=5)), inputs
    )
    found = to_numpy(dropout(inputs, 0.5, seed=5))
    np.testing.assert_allclose(gradient, found / inputs, rtol=1e-6)
    assert 0 < (gradient == 0).sum() < gradient.size


def test_the_shape_of_the_noise_is_kept():
    layer = Dropout(0.5, noise_shape=(ROWS, 1), seed=6)
    assert (np.ptp(drawn(layer), axis=1) == 0).all()
