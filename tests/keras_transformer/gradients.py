"""Gradients on the backend at hand, and central differences."""

import keras
import numpy as np
import pytest

from tests.keras_transformer import helpers

GENERATOR = np.random.default_rng(8)


def randoms(*shape):
    return GENERATOR.normal(size=shape).astype("float32")


def gradients_by_arrays(function, *arrays) -> list[np.ndarray]:
    """Those of a scalar function of arrays."""
    if keras.backend.backend() == "jax":
        import jax

        found = jax.grad(function, argnums=range(len(arrays)))(*arrays)
    else:
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(array) for array in arrays]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        found = tape.gradient(value, tensors)
    return [np.asarray(each) for each in found]


def slope(formula, arrays, place, entry, step=1e-6) -> float:
    """A formula's central difference by one entry of one of its arrays.

    Args:
        formula: of float64 arrays; returns a number.
        arrays: what it is called with.
        place: of the array that is changed.
        entry: index into it.
        step: by which the entry is changed, up and down.
    """
    ends = []
    for change in (step, -step):
        moved = [np.float64(array) for array in arrays]
        moved[place][entry] += change
        ends.append(formula(*moved))
    return (ends[0] - ends[1]) / (2 * step)


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


def gradients(model, inputs, labels, loss) -> dict[str, np.ndarray]:
    """Those of the loss, float64, by the names of a model's weights."""
    backend = keras.backend.backend()
    by_backend = {"tensorflow": _of_tensorflow, "jax": _of_jax}
    values = by_backend[backend](model, inputs, labels, loss)
    return dict(zip(helpers.weights_by_name(model), map(np.asarray, values)))


def _of_tensorflow(model, inputs, labels, loss):
    import tensorflow as tf

    variables = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        value = loss(labels, model(inputs, training=True))
    # An embedding looked up gives slices: made dense here.
    return [
        tf.convert_to_tensor(part).numpy().astype("float64")
        for part in tape.gradient(value, variables)
    ]


def _of_jax(model, inputs, labels, loss):
    import jax

    def of_weights(trainable):
        logits, _ = model.stateless_call(
            trainable,
            [weight.value for weight in model.non_trainable_variables],
            inputs,
            training=True,
        )
        return loss(labels, logits)

    trainable = [weight.value for weight in model.trainable_variables]
    return [
        np.asarray(part, "float64")
        for part in jax.jit(jax.grad(of_weights))(trainable)
    ]
