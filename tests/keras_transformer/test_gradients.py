"""Keras' float32 gradients against central differences in float64.

The differences are taken of the NumPy reference, which casts nothing to
float32, so that a step of 1e-6 is far above its rounding.
"""

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model
from tests.keras_transformer.gradients import gradients
from tests.keras_transformer.reference import mean_loss

STEP = 1e-6
SMOOTHING = 0.1


def shifted_labels(target):
    """Each position's label is the token after it; the last one ends."""
    labels = np.zeros_like(target)
    labels[:, :-1] = target[:, 1:]
    labels[np.arange(len(target)), (target != 0).sum(1) - 1] = 3
    return labels


def slope(config, weights, name, direction, inputs, labels):
    """The loss's central difference along a direction in one tensor."""

    def at(step):
        moved = weights | {name: weights[name] + step * direction}
        return mean_loss(
            whole_model.logits(config, moved, inputs), labels, SMOOTHING
        )

    return (at(STEP) - at(-STEP)) / (2 * STEP)


def directions(generator, gradient):
    """One that moves all entries, and one that moves the steepest."""
    everywhere = generator.normal(size=gradient.shape)
    yield everywhere / np.linalg.norm(everywhere)
    steepest = np.zeros(gradient.shape)
    steepest.flat[np.abs(gradient).argmax()] = 1.0
    yield steepest


@pytest.mark.parametrize("name", ["paper", "pre-norm", "learned", "no-bias"])
def test_gradients_equal_central_differences(name):
    model = helpers.variant(name)
    inputs = helpers.padded_inputs()
    labels = shifted_labels(inputs["target"])
    loss = kt.LabelSmoothedCrossEntropy(SMOOTHING)
    found = gradients(model, inputs, labels, loss)
    weights = helpers.weights_by_name(model)
    overall = max(np.abs(gradient).max() for gradient in found.values())
    generator = np.random.default_rng(0)
    assert found.keys() == weights.keys()
    for key, gradient in found.items():
        # What is exactly 0, such as keys' biases, is 0 beside the others.
        scale = max(np.linalg.norm(gradient), 1e-3 * overall)
        for direction in directions(generator, gradient):
            expected = slope(
                model.config, weights, key, direction, inputs, labels
            )
            actual = (gradient * direction).sum()
            assert abs(actual - expected) <= 1e-4 * scale, key


def test_padding_gets_no_gradient():
    """Neither the pad's embedding nor positions that only pads stand at."""
    model = helpers.variant("learned")
    inputs = helpers.padded_inputs()
    inputs = {key: np.pad(ids, ((0, 0), (0, 3))) for key, ids in inputs.items()}
    labels = shifted_labels(inputs["target"])
    found = gradients(model, inputs, labels, kt.LabelSmoothedCrossEntropy())
    assert np.abs(found["source_embedding/embeddings"][0]).max() == 0
    assert np.abs(found["target_embedding/embeddings"][0]).max() == 0
    assert np.abs(found["source_positions/embeddings"][5:]).max() == 0
    assert np.abs(found["target_positions/embeddings"][6:]).max() == 0
    assert np.abs(found["source_positions/embeddings"][:5]).min() > 0
