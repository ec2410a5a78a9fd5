"""The keys' bias changes nothing, so that training leaves it alone."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers, whole_model
from tests.keras_transformer.gradients import gradients
from tests.keras_transformer.reference import mean_loss
from tests.keras_transformer.test_gradients import shifted_labels

STEP = 1e-6
SMOOTHING = 0.1
INPUTS = helpers.padded_inputs()
LABELS = shifted_labels(INPUTS["target"])


def _key_parts(config) -> dict[str, slice]:
    """Where the keys' biases are in each fused bias, by its name's end."""
    width = config.num_heads * config.d_k
    return {
        "query_key_value/bias": slice(width, 2 * width),
        "/key_value/bias": slice(0, width),
    }


def _fused_biases(model):
    """(name, the keys' part) of each fused bias of a model."""
    found = [
        (name, part)
        for name in helpers.weights_by_name(model)
        for end, part in _key_parts(model.config).items()
        if name.endswith(end)
    ]
    # Self-attention in each layer, cross-attention in the decoder's.
    assert len(found) == 3 * model.config.num_layers
    return found


def _gradients(model):
    loss = kt.LabelSmoothedCrossEntropy(SMOOTHING)
    return gradients(model, INPUTS, LABELS, loss)


@pytest.mark.parametrize("name", ["paper", "pre-norm", "one-head", "window"])
def test_the_keys_bias_gets_no_gradient_and_the_others_do(name):
    model = helpers.variant(name)
    found = _gradients(model)
    for bias, part in _fused_biases(model):
        assert (found[bias][part] == 0.0).all(), bias
        others = np.delete(found[bias], part)
        assert len(others) == len(found[bias]) - (part.stop - part.start)
        assert (np.abs(others) > 0).all(), bias


def test_half_width_does_not_change_that():
    model = kt.Transformer(helpers.config(), dtype="mixed_bfloat16")
    helpers.randomise(model, seed=1)
    found = _gradients(model)
    for bias, part in _fused_biases(model):
        assert (found[bias][part] == 0.0).all(), bias


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_entry_of_a_fused_bias_has_the_loss_slope(number):
    """Of the NumPy reference in float64, in which nothing is held still."""
    model = helpers.variant("paper")
    weights = helpers.weights_by_name(model)
    found = _gradients(model)
    # The first encoder and decoder layer's.
    name, part = [
        bias for bias in _fused_biases(model) if "layer_1" in bias[0]
    ][number]

    def loss_at(moved):
        logits = whole_model.logits(
            model.config, weights | {name: moved}, INPUTS
        )
        return mean_loss(logits, LABELS, SMOOTHING)

    slopes = []
    for place in range(len(weights[name])):
        step = np.zeros(len(weights[name]))
        step[place] = STEP
        higher, lower = (loss_at(weights[name] + s * step) for s in (1, -1))
        slopes.append((higher - lower) / (2 * STEP))
    largest = np.abs(slopes).max()
    np.testing.assert_allclose(found[name], slopes, rtol=0, atol=1e-4 * largest)
    assert np.abs(slopes[part]).max() < 1e-6 * largest


def test_adam_leaves_it_where_it_is():
    """Whose step is the gradient divided by its own size: noise, too."""
    model = kt.Transformer(helpers.config(num_layers=1))
    helpers.randomise(model, seed=4)
    before = helpers.weights_by_name(model)
    model.compile(
        keras.optimizers.Adam(0.01, epsilon=1e-9),
        loss=kt.LabelSmoothedCrossEntropy(SMOOTHING),
        jit_compile=helpers.JITTED,
        run_eagerly=not helpers.JITTED,
    )
    model.fit(INPUTS, LABELS, verbose=0)
    after = helpers.weights_by_name(model)
    for name, part in _fused_biases(model):
        change = np.abs(after[name] - before[name])
        assert (change[part] == 0).all(), name
        assert (np.delete(change, part) > 0.001).all(), name


def test_without_biases_there_is_none_to_hold_still():
    model = helpers.variant("no-bias")
    assert not any("value/bias" in n for n in helpers.weights_by_name(model))
    assert all(np.isfinite(each).all() for each in _gradients(model).values())
