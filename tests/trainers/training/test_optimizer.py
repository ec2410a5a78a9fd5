"""Adam in one pass against Keras'."""

import keras
import numpy as np

from trainers.training.training_base import AveragingAdam
from trainers.training.training_model import FusedAdam

SHAPES = [(5, 3), (7,)]
RATES = [0.1, 0.02, 0.3, 0.05]
BETAS = (0.9, 0.98)


def _gradients():
    generator = np.random.default_rng(1)
    return [
        [scale * generator.normal(size=shape) for shape in SHAPES]
        for scale in (1e-6, 1.0, 30.0, 1.0)
    ]


def _update(optimizer_class):
    """Returns weights and moments after four updates."""
    optimizer = optimizer_class(
        0.0, beta_1=BETAS[0], beta_2=BETAS[1], epsilon=1e-9
    )
    variables = [keras.Variable(np.ones(shape, "float32")) for shape in SHAPES]
    optimizer.build(variables)
    for rate, step in zip(RATES, _gradients()):
        optimizer.learning_rate = rate
        optimizer.apply(
            [keras.ops.convert_to_tensor(each, "float32") for each in step]
        )
    moments = [variable.numpy() for variable in optimizer.variables[2:]]
    return [variable.numpy() for variable in variables], moments


def test_equals_keras_adam():
    """The same variables hold the same, so checkpoints fit both."""
    weights, moments = _update(FusedAdam)
    others, other_moments = _update(keras.optimizers.Adam)
    assert len(moments) == len(other_moments) == 4
    for one, other in zip(weights + moments, others + other_moments):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-7)


def test_an_average_adds_one_variable_for_each():
    variables = [keras.Variable(np.ones(shape, "float32")) for shape in SHAPES]
    for optimizer_class in AveragingAdam, FusedAdam:
        optimizer = optimizer_class(0.1, average_momentum=0.9)
        optimizer.build(variables)
        added = optimizer.variables[2:]
        assert [each.shape for each in added] == [
            *(shape for shape in SHAPES for _ in range(2)),
            *SHAPES,
        ]
