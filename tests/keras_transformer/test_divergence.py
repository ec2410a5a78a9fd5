"""The penalty of R-Drop against its definition in float64."""

import keras
import numpy as np
import pytest

from keras_transformer.loss import symmetric_divergence
from tests.keras_transformer import helpers
from tests.keras_transformer.gradients import gradients_by_arrays, slope

GENERATOR = np.random.default_rng(5)
FIRST, SECOND = (3 * GENERATOR.normal(size=(2, 3, 4, 7))).astype("float32")


def by_definition(first, second):
    """(KL(p || q) + KL(q || p)) / 2, from probabilities."""
    p, q = (np.exp(np.float64(each)) for each in (first, second))
    p, q = (each / each.sum(-1, keepdims=True) for each in (p, q))
    there, back = p * np.log(p / q), q * np.log(q / p)
    return 0.5 * (there + back).sum(-1)


def test_each_token():
    found = helpers.to_numpy(symmetric_divergence(FIRST, SECOND))
    np.testing.assert_allclose(found, by_definition(FIRST, SECOND), rtol=1e-5)


def test_by_hand():
    """Of 1/2, 1/2 and 3/4, 1/4: (ln 3) / 8, as the odds differ by 3."""
    first = np.log(np.array([1.0, 1.0], "float32"))
    second = np.log(np.array([3.0, 1.0], "float32"))
    found = float(symmetric_divergence(first, second))
    assert found == pytest.approx(np.log(3.0) / 8, rel=1e-6)


def test_none_where_nothing_but_the_level_differs():
    found = helpers.to_numpy(symmetric_divergence(FIRST, FIRST + 50.0))
    np.testing.assert_allclose(found, 0.0, atol=1e-5)


def test_logits_of_half_width_are_compared_in_full():
    first, second = (
        keras.ops.cast(each, "bfloat16") for each in (FIRST, SECOND)
    )
    found = symmetric_divergence(first, second)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    expected = by_definition(*map(helpers.to_numpy, (first, second)))
    np.testing.assert_allclose(helpers.to_numpy(found), expected, rtol=1e-5)


def test_far_apart_it_is_large_and_no_nan():
    first = np.array([[1e4, 0.0]], "float32")
    divergence = symmetric_divergence(first, -first)
    assert float(divergence[0]) == pytest.approx(1e4, rel=1e-6)


def test_gradients_equal_central_differences():
    weights = GENERATOR.normal(size=FIRST.shape[:-1])

    def weighted(first, second):
        each = symmetric_divergence(first, second)
        return keras.ops.sum(each * weights.astype("float32"))

    def by_formula(first, second):
        return (weights * by_definition(first, second)).sum()

    found = gradients_by_arrays(weighted, FIRST, SECOND)
    for place, gradient in enumerate(found):
        for entry in [(0, 0, 0), (1, 2, 3), (2, 3, 6)]:
            expected = slope(by_formula, (FIRST, SECOND), place, entry)
            assert gradient[entry] == pytest.approx(expected, 1e-4, 1e-6)
            assert abs(expected) > 1e-4
