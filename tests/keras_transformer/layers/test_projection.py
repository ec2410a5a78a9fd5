"""Fused projections: their first values, their biases, and LoRA."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.layers.base import Projection
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import MEMORY, STATES


def test_every_block_is_a_product_plus_its_bias():
    """The bias without a gradient is used all the same."""
    layer = Projection([6, 6, 10], constant_bias=1)
    layer.build(STATES.shape)
    helpers.randomise(layer)
    kernel, bias = map(helpers.to_numpy, (layer.kernel, layer.bias))
    expected = STATES @ kernel + bias
    outputs = layer(STATES)
    assert helpers.relative_error(outputs, expected) <= 1e-6
    ends = [0, 6, 12, 22]
    for block, start, end in zip(layer.split(outputs), ends, ends[1:]):
        actual = helpers.to_numpy(block)
        np.testing.assert_allclose(actual, expected[..., start:end], 1e-5, 1e-5)


def test_first_values_are_glorots_by_the_widths_of_each_block():
    """With half of the variance for queries, keys and values."""
    layer = kt.MultiHeadAttention(4, 4, 64)
    layer.build((None, None, 64))
    for projection, variance in (
        (layer.query_key_value, 0.5),
        (layer.output_projection, 1.0),
    ):
        kernel = helpers.to_numpy(projection.kernel)
        for block in projection.split(kernel):
            bound = (variance * 6.0 / sum(block.shape)) ** 0.5
            largest = np.abs(helpers.to_numpy(block)).max()
            assert 0.97 * bound < largest <= bound


@pytest.mark.parametrize("inputs", [(STATES,), (STATES, MEMORY)])
def test_lora_of_keras_adds_a_product_to_a_kernel(inputs):
    layer, plain, fresh = (kt.MultiHeadAttention(2, 3, 5) for _ in range(3))
    for each in (layer, plain, fresh):
        each.build(*[states.shape for states in inputs])
        helpers.randomise(each, seed=1)
    fused = "query_key_value" if len(inputs) == 1 else "key_value"
    adapted = getattr(layer, fused)
    adapted.enable_lora(2, lora_alpha=6)
    trained = [adapted.lora_kernel_a, adapted.lora_kernel_b]
    for weight in trained:
        weight.assign(keras.random.normal(weight.shape))
    a, b = map(helpers.to_numpy, trained)
    kernel = getattr(plain, fused).kernel
    kernel.assign((helpers.to_numpy(kernel) + 3 * a @ b).astype("float32"))
    # What decoding projects for its caches is adapted too; saved, it is a
    # layer that was never adapted.
    store = {}
    adapted.save_own_variables(store)
    getattr(fresh, fused).load_own_variables(store)
    for one in (layer, fresh):
        actual = helpers.to_numpy(one(*inputs))
        expected = helpers.to_numpy(plain(*inputs))
        assert helpers.relative_error(actual, expected) <= 1e-5
    if len(inputs) == 2:
        for pair in zip(*(x.project_memory(MEMORY) for x in (layer, plain))):
            np.testing.assert_allclose(*map(helpers.to_numpy, pair), 1e-4, 1e-4)
