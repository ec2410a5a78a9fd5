"""Keras' float32 gradients against central differences in float64.

The differences are taken of the NumPy reference, which casts nothing to
float32, so that a step of 1e-6 is far above its rounding.
"""

import keras
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


INPUTS = helpers.padded_inputs()
LABELS = shifted_labels(INPUTS["target"])


def slope(config, weights, name, direction):
    """The loss's central difference along a direction in one tensor."""

    def at(step):
        moved = weights | {name: weights[name] + step * direction}
        return mean_loss(
            whole_model.logits(config, moved, INPUTS), LABELS, SMOOTHING
        )

    return (at(STEP) - at(-STEP)) / (2 * STEP)


def gradients_of(model):
    loss = kt.LabelSmoothedCrossEntropy(SMOOTHING)
    return gradients(model, INPUTS, LABELS, loss)


@pytest.mark.parametrize("name", ["paper", "pre-norm", "learned"])
def test_gradients_equal_central_differences(name):
    """Along a direction that moves all entries of a weight."""
    model = helpers.variant(name)
    found = gradients_of(model)
    weights = helpers.weights_by_name(model)
    overall = max(np.abs(gradient).max() for gradient in found.values())
    generator = np.random.default_rng(0)
    assert found.keys() == weights.keys()
    for key, gradient in found.items():
        direction = generator.normal(size=gradient.shape)
        direction /= np.linalg.norm(direction)
        # What is exactly 0, such as keys' biases, is 0 beside the others.
        scale = max(np.linalg.norm(gradient), 1e-3 * overall)
        expected = slope(model.config, weights, key, direction)
        actual = (gradient * direction).sum()
        assert abs(actual - expected) <= 1e-4 * scale, key


def test_padding_gets_no_gradient():
    """Neither its embedding nor positions that hold nothing else."""
    model = helpers.variant("learned")
    inputs = {key: np.pad(ids, ((0, 0), (0, 3))) for key, ids in INPUTS.items()}
    labels = shifted_labels(inputs["target"])
    found = gradients(model, inputs, labels, kt.LabelSmoothedCrossEntropy())
    for side, length in (("source", 5), ("target", 6)):
        assert not found[f"{side}_embedding/embeddings"][0].any()
        positions = np.abs(found[f"{side}_positions/embeddings"])
        assert positions[length:].max() == 0
        assert positions[:length].min() > 0


def fused_biases(model):
    """(name, slice of the keys) of each fused bias of a model."""
    width = model.config.num_heads * model.config.d_k
    slices = {
        "query_key_value/bias": slice(width, 2 * width),
        "/key_value/bias": slice(0, width),
    }
    found = [
        (name, part)
        for name in helpers.weights_by_name(model)
        for end, part in slices.items()
        if name.endswith(end)
    ]
    # Self-attention in each layer, cross-attention in the decoder's.
    assert len(found) == 3 * model.config.num_layers
    return found


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_adam_leaves_keys_biases_where_they_are(dtype):
    """They add the same to all scores of a query, which softmax ignores.

    Adam's step is the gradient divided by its own size: noise, too.
    """
    model = kt.Transformer(helpers.config(num_layers=1), dtype=dtype)
    helpers.randomise(model, seed=4)
    found, before = gradients_of(model), helpers.weights_by_name(model)
    model.compile(
        keras.optimizers.Adam(0.01, epsilon=1e-9),
        loss=kt.LabelSmoothedCrossEntropy(SMOOTHING),
        jit_compile=helpers.JITTED,
        run_eagerly=not helpers.JITTED,
    )
    model.fit(INPUTS, LABELS, verbose=0)
    after = helpers.weights_by_name(model)
    for name, part in fused_biases(model):
        assert (found[name][part] == 0.0).all(), name
        change = np.abs(after[name] - before[name])
        assert (change[part] == 0).all(), name
        assert (np.delete(change, part) != 0).mean() > 0.9, name
        direction = np.where(np.arange(len(change)) == part.start, 1.0, 0.0)
        expected = slope(model.config, before, name, direction)
        assert abs(expected) < 1e-6 * np.abs(found[name]).max()
