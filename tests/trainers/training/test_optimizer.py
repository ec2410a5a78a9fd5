"""Adam in one pass against section 5.3's formula in float64, and Keras'."""

import keras
import numpy as np
import pytest

from trainers.training.optimizer import FusedAdam

SHAPES = [(5, 3), (7,)]
RATES = [0.1, 0.02, 0.3, 0.05]
BETAS = (0.9, 0.98)


def gradients():
    generator = np.random.default_rng(1)
    scales = [1e-6, 1.0, 30.0, 1.0]
    return [
        [scale * generator.normal(size=shape) for shape in SHAPES]
        for scale in scales
    ]


def after_updates(optimizer_class):
    optimizer = optimizer_class(
        0.0, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=1e-9
    )
    variables = [keras.Variable(np.ones(shape, "float32")) for shape in SHAPES]
    optimizer.build(variables)
    for rate, step in zip(RATES, gradients()):
        optimizer.learning_rate = rate
        optimizer.apply(
            [keras.ops.convert_to_tensor(each, "float32") for each in step]
        )
    moments = [variable.numpy() for variable in optimizer.variables[2:]]
    return [variable.numpy() for variable in variables], moments


def by_the_formula():
    """Kingma and Ba's; the bias corrections written into the rate."""
    found = []
    for number, shape in enumerate(SHAPES):
        weight, mean, square = np.ones(shape), 0.0, 0.0
        for step, (rate, each) in enumerate(zip(RATES, gradients()), 1):
            mean = BETAS[0] * mean + (1 - BETAS[0]) * each[number]
            square = BETAS[1] * square + (1 - BETAS[1]) * each[number] ** 2
            corrected = rate * np.sqrt(1 - BETAS[1] ** step)
            corrected /= 1 - BETAS[0] ** step
            weight = weight - corrected * mean / (np.sqrt(square) + 1e-9)
        found.append(weight)
    return found


def test_equals_the_formula():
    weights, _ = after_updates(FusedAdam)
    for found, expected in zip(weights, by_the_formula()):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_goes_on_where_keras_adam_stopped():
    """The same variables hold the same, so checkpoints fit both."""
    weights, moments = after_updates(FusedAdam)
    others, other_moments = after_updates(keras.optimizers.Adam)
    assert len(moments) == len(other_moments) == 4
    for found, expected in zip(weights + moments, others + other_moments):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


def test_refuses_amsgrad():
    with pytest.raises(TypeError, match="amsgrad"):
        FusedAdam(0.1, amsgrad=True)
