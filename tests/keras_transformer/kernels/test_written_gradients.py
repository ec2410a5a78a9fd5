"""Gradients that are written out, against central differences in float64."""

import contextlib

import keras
import numpy as np
import pytest

from keras_transformer.kernels.gradients import is_uncompiled, uncompiled
from keras_transformer.kernels.layers import layer_norm
from keras_transformer.kernels.projections import linear
from keras_transformer.loss import projected_losses
from tests.keras_transformer import helpers, reference
from tests.keras_transformer.kernels.gradients import gradients_by_arrays, slope

GENERATOR = np.random.default_rng(8)
EPSILON = 1e-3


def randoms(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def check_gradients(function, formula, arrays):
    """A function's gradients are the slopes of a formula in float64.

    Args:
        function: of Keras tensors, whose result is weighed and summed.
        formula: the same in NumPy.
        arrays: float32, what both are called with.
    """
    weights = GENERATOR.normal(size=formula(*map(np.float64, arrays)).shape)

    def weighed(*tensors):
        return keras.ops.sum(function(*tensors) * weights.astype("float32"))

    def weighed_formula(*float64):
        return (weights * formula(*float64)).sum()

    found = gradients_by_arrays(weighed, *arrays)
    for place, gradient in enumerate(found):
        assert gradient.shape == arrays[place].shape
        for entry in np.ndindex(gradient.shape):
            expected = slope(weighed_formula, arrays, place, entry)
            assert gradient[entry] == pytest.approx(expected, 1e-4, 2e-5)
        assert np.abs(gradient).max() > 0.1


@pytest.mark.parametrize("widths", [(3, 5), (5, 3), (4, 4)])
@pytest.mark.parametrize("rows", [(6,), (2, 3)])
def test_linear(widths, rows):
    arrays = [randoms(*rows, widths[0]), randoms(*widths), randoms(widths[1])]

    def written(*tensors):
        with uncompiled():
            return linear(*tensors)

    def formula(inputs, kernel, bias=0.0):
        return inputs @ kernel + bias

    check_gradients(written, formula, arrays)
    check_gradients(written, formula, arrays[:2])
    np.testing.assert_array_equal(
        helpers.to_numpy(written(*arrays)), helpers.to_numpy(linear(*arrays))
    )


def test_the_scope_ends_with_an_error_too():
    assert not is_uncompiled()
    with pytest.raises(KeyError), uncompiled():
        assert is_uncompiled()
        raise KeyError
    assert not is_uncompiled()


def by_formula(inputs, gamma, beta):
    rows = inputs.reshape(-1, inputs.shape[-1])
    weights = {"gamma": gamma, "beta": beta}
    normal = reference.layer_norm(weights, rows, EPSILON)
    return normal.reshape(inputs.shape)


def test_layer_norm():
    arrays = [3 + 2 * randoms(2, 3, 6), randoms(6), randoms(6)]
    found = helpers.to_numpy(layer_norm(*arrays, EPSILON))
    np.testing.assert_allclose(found, by_formula(*arrays), 1e-5, 1e-5)
    check_gradients(
        lambda *tensors: layer_norm(*tensors, EPSILON), by_formula, arrays
    )


def test_layer_norm_of_half_width_is_computed_in_full():
    inputs = keras.ops.cast(100 + randoms(4, 64), "bfloat16")
    gamma, beta = randoms(64), randoms(64)
    found = layer_norm(inputs, gamma, beta, EPSILON)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    expected = by_formula(helpers.to_numpy(inputs), gamma, beta)
    np.testing.assert_allclose(helpers.to_numpy(found), expected, 1e-2, 1e-2)


@pytest.fixture(name="way", params=[contextlib.nullcontext, uncompiled])
def fixture_way(request):
    """The loss has a way of its own for either."""
    with request.param():
        yield


LABELS = np.array([[4, 1, 3], [6, 0, 0]], "int32")
STATES, MATRIX = randoms(2, 3, 5), randoms(7, 5)


def losses_by_formula(states, matrix, smoothing):
    logits = states @ matrix.T
    losses = np.zeros(LABELS.shape)
    for place in np.ndindex(*LABELS.shape):
        if LABELS[place]:
            losses[place] = reference.smoothed_loss(
                logits[place], LABELS[place], smoothing
            )
    return losses


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_losses_of_projected_states(smoothing):
    found = projected_losses(STATES, MATRIX, LABELS, smoothing)
    smoothed, plain, correct = map(helpers.to_numpy, found)
    for actual, epsilon in ((smoothed, smoothing), (plain, 0.0)):
        expected = losses_by_formula(STATES, MATRIX, epsilon)
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)
    best = (STATES @ MATRIX.T).argmax(-1)
    np.testing.assert_array_equal(correct, (best == LABELS) & (LABELS != 0))
    # Both kinds of loss have a gradient: the second one as reported.
    for field, epsilon in (("smoothed", smoothing), ("plain", 0.0)):
        check_gradients(
            lambda states, matrix, field=field: getattr(
                projected_losses(states, matrix, LABELS, smoothing), field
            ),
            lambda states, matrix, epsilon=epsilon: losses_by_formula(
                states, matrix, epsilon
            ),
            [STATES, MATRIX],
        )


@pytest.mark.usefixtures("way")
def test_what_labels_have_of_the_gradient_can_be_had_apart():
    def total(matrix, *label_rows):
        losses = projected_losses(STATES, matrix, LABELS, 0.1, *label_rows)
        return keras.ops.sum(losses.smoothed)

    label_rows = MATRIX[LABELS]
    [whole] = gradients_by_arrays(total, MATRIX)
    rest, of_rows = gradients_by_arrays(total, MATRIX, label_rows)
    apart = np.zeros_like(MATRIX)
    np.add.at(apart, LABELS, of_rows)
    np.testing.assert_allclose(rest + apart, whole, 1e-5, 1e-6)
    assert np.abs(apart).max() > 0.1
    assert not of_rows[LABELS == 0].any()


@pytest.mark.usefixtures("way")
def test_the_right_word_counts_as_correct():
    """The label's logit is the highest one for the first word only."""
    matrix = np.eye(7, 5, dtype="float32")
    states = np.zeros((2, 3, 5), "float32")
    states[0, 0, 4] = states[0, 1, 2] = states[1, 1, 0] = 9.0
    found = projected_losses(states, matrix, LABELS, 0.1).correct
    by_hand = [[1, 0, 1], [1, 0, 0]]
    # All logits are 0 in the third and the fourth word: none is higher.
    np.testing.assert_array_equal(helpers.to_numpy(found), by_hand)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_losses_of_very_large_logits_stay_finite(scale):
    states, matrix = scale * STATES, MATRIX
    found = projected_losses(states, matrix, LABELS, 0.1)
    expected = losses_by_formula(np.float64(states), np.float64(matrix), 0.1)
    np.testing.assert_allclose(helpers.to_numpy(found.smoothed), expected, 1e-5)
    assert expected.max() > 100

    def total(states, matrix):
        losses = projected_losses(states, matrix, LABELS, 0.1)
        return keras.ops.sum(losses.smoothed)

    for gradient in gradients_by_arrays(total, states, matrix):
        assert np.isfinite(gradient).all()


def test_projected_states_of_half_width():
    states = keras.ops.cast(STATES, "bfloat16")
    found = projected_losses(states, MATRIX, LABELS, 0.1).smoothed
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    expected = losses_by_formula(helpers.to_numpy(states), MATRIX, 0.1)
    np.testing.assert_allclose(helpers.to_numpy(found), expected, 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_take_the_precision_of_the_states(dtype):
    states = np.float32(helpers.to_numpy(keras.ops.cast(STATES, "bfloat16")))

    def total(states, matrix):
        states = keras.ops.cast(states, dtype)
        losses = projected_losses(states, matrix, LABELS, 0.1)
        return keras.ops.sum(losses.smoothed)

    found = gradients_by_arrays(total, states, MATRIX)
    for place, gradient in enumerate(found):
        expected = np.array(
            [
                slope(
                    lambda *arrays: losses_by_formula(*arrays, 0.1).sum(),
                    [states, MATRIX],
                    place,
                    entry,
                )
                for entry in np.ndindex(gradient.shape)
            ]
        ).reshape(gradient.shape)
        error = np.abs(gradient - expected).max() / np.abs(expected).max()
        # bfloat16 has 8 bits; XLA multiplies with it, so something is lost.
        if dtype == "bfloat16":
            assert 1e-4 < error < 1e-2
        else:
            assert error < 1e-5


def test_uncompiled_gradients_are_multiplied_in_full():
    states = np.float32(helpers.to_numpy(keras.ops.cast(STATES, "bfloat16")))

    def by_matrix(dtype):
        def total(states, matrix):
            states = keras.ops.cast(states, dtype)
            with uncompiled():
                losses = projected_losses(states, matrix, LABELS, 0.1)
            return keras.ops.sum(losses.smoothed)

        return gradients_by_arrays(total, states, MATRIX)[1]

    np.testing.assert_allclose(
        by_matrix("bfloat16"), by_matrix("float32"), 1e-6, 1e-7
    )
