"""Gradients on the backend at hand, and central differences."""

import keras
import numpy as np
import pytest

from tests.keras_transformer import helpers

GENERATOR = np.random.default_rng(8)


def randoms(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def gradients_by_arrays(function, *arrays) -> list[np.ndarray]:
    """Returns the gradients of a scalar function of arrays."""
    if keras.backend.backend() == "jax":
        import jax

        gradient = jax.jit(jax.grad(function, argnums=range(len(arrays))))
        found = gradient(*arrays)
    else:
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(array) for array in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        # An embedding that is looked up gives slices: made dense here.
        found = map(tf.convert_to_tensor, tape.gradient(value, tensors))
    return [helpers.to_numpy(each) for each in found]


def slope(formula, arrays, place, entry, step=1e-6) -> float:
    """Returns the central difference by one entry of array number `place`."""
    ends = []
    for change in (step, -step):
        moved = [np.float64(array) for array in arrays]
        moved[place][entry] += change
        ends.append(formula(*moved))
    return (ends[0] - ends[1]) / (2 * step)


def check_gradients(function, formula, arrays):
    """Compares a function's gradients with the slopes of a NumPy formula."""
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


def gradients(model, inputs, labels, loss) -> dict[str, np.ndarray]:
    """Returns those of the loss by the names of a model's weights."""

    def value(*weights):
        pairs = zip(model.trainable_variables, weights)
        with keras.StatelessScope(list(pairs)):
            return loss(labels, model(inputs, training=True))

    weights = helpers.weights_by_name(model)
    arrays = [each.astype("float32") for each in weights.values()]
    return dict(zip(weights, gradients_by_arrays(value, *arrays)))
