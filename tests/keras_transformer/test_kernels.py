"""Dropout in the scope of what is not compiled; outside it is Keras' own."""

import keras
import numpy as np
import pytest

from keras_transformer.kernels.gradients import uncompiled
from keras_transformer.kernels.layers import Dropout, dropout
from tests.keras_transformer.helpers import to_numpy
from tests.keras_transformer.kernels.gradients import gradients_by_arrays

ROWS, COLUMNS = 301, 331  # Entries are no multiple of 4.
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
    np.testing.assert_allclose(found[kept], 1 / (1 - rate), rtol=1e-6)
    assert found.mean() == pytest.approx(1.0, abs=5 * deviation / (1 - rate))


def test_a_rate_between_two_numbers_of_bits_is_met():
    """0.1 of 256 is 25.6: both 25 and 26 would be far off over so many."""
    layer = Dropout(0.1, seed=7)
    kept = np.mean([(drawn(layer) != 0).mean() for _ in range(40)])
    deviation = np.sqrt(0.1 * 0.9 / (40 * ONES.size))
    assert abs(kept - 0.9) < 5 * deviation
    for whole in (25, 26):
        assert abs(1 - whole / 256 - 0.9) > 8 * deviation


def test_neighbours_are_independent():
    """Four numbers come from one random integer: of each the bits differ."""
    kept = (drawn(Dropout(0.5, seed=2)) != 0).ravel()
    for distance in (1, 2, 3, 4):
        alike = kept[distance:] == kept[:-distance]
        assert abs(alike.mean() - 0.5) < 5 * 0.5 / np.sqrt(alike.size)
    for first in range(4):
        part = kept[first::4]
        assert abs(part.mean() - 0.5) < 5 * 0.5 / np.sqrt(part.size)


def test_each_call_draws_anew_and_a_seed_says_what():
    layer, same = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    first, second = drawn(layer), drawn(layer)
    assert (first != second).mean() > 0.4
    np.testing.assert_array_equal(first, drawn(same))
    np.testing.assert_array_equal(second, drawn(same))


def test_nothing_is_dropped_but_in_training():
    np.testing.assert_array_equal(drawn(Dropout(0.5), training=False), ONES)
    np.testing.assert_array_equal(drawn(Dropout(0.0)), ONES)


@pytest.mark.parametrize("rate", [254 / 256, 0.995, 0.9995])
def test_extreme_rates_are_met(rate):
    found = drawn(Dropout(rate, seed=4), np.ones((1000, 1000), "float32"))
    kept = (found != 0).mean()
    assert abs(kept - (1 - rate)) < 5 * np.sqrt(rate * (1 - rate) / 1e6)
    np.testing.assert_allclose(found[found != 0], 1 / (1 - rate), rtol=1e-4)


def test_shape_and_dtype_stay():
    inputs = keras.ops.ones((2, 3, 5), "bfloat16")
    with uncompiled():
        found = Dropout(0.5, dtype="bfloat16")(inputs, training=True)
    assert tuple(found.shape) == (2, 3, 5)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"


def test_what_is_dropped_has_no_gradient():
    inputs = np.linspace(1, 2, 35, dtype="float32").reshape(5, 7)

    def drop(values):
        return dropout(values, 0.5, keras.random.SeedGenerator(5))

    [gradient] = gradients_by_arrays(
        lambda values: keras.ops.sum(drop(values)), inputs
    )
    found = to_numpy(drop(inputs))
    np.testing.assert_allclose(gradient, found / inputs, rtol=1e-6)
    assert 0 < (gradient == 0).sum() < gradient.size


def test_the_shape_of_the_noise_is_kept():
    layer = Dropout(0.5, noise_shape=(ROWS, 1), seed=6)
    assert (np.ptp(drawn(layer), axis=1) == 0).all()
