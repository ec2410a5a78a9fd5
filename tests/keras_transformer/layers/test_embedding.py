"""Embeddings, positions and projections."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.layers.base import Projection
from tests.keras_transformer import helpers, reference
from tests.keras_transformer.layers.layer_samples import STATES


@pytest.mark.parametrize("output_bias", [False, True])
def test_embedding_and_its_transpose(output_bias):
    layer = kt.SharedEmbedding(11, 12, output_bias=output_bias)
    layer.build()
    helpers.randomise(layer, seed=12)
    table = helpers.to_numpy(layer.embeddings)
    bias = helpers.to_numpy(layer.bias) if output_bias else np.zeros(11)
    ids = np.array([[4, 0, 10], [1, 1, 3]])
    assert helpers.relative_error(layer(ids), table[ids] * 12**0.5) <= 1e-5
    expected = STATES @ table.T + bias
    logits = layer.logits(keras.ops.convert_to_tensor(STATES))
    assert helpers.relative_error(logits, expected) <= 1e-5
    # The same with the bias as a column.
    matrix = helpers.to_numpy(layer.output_matrix())
    states = helpers.to_numpy(layer.append_bias_input(STATES))
    assert helpers.relative_error(states @ matrix.T, expected) <= 1e-5
    rows = helpers.to_numpy(layer.output_matrix(ids.astype("int32")))
    np.testing.assert_array_equal(rows, matrix[ids])


def test_fresh_embeddings_have_unit_scale():
    layer = kt.SharedEmbedding(2000, 64)
    embedded = helpers.to_numpy(layer(np.arange(2000)[None]))
    assert abs(embedded.std() - 1.0) < 0.02
    assert abs(embedded.mean()) < 0.02


@pytest.mark.parametrize(
    ("d_model", "rates"), [(2, "paper"), (512, "paper"), (6, "marian")]
)
def test_sinusoid_equals_the_formula(d_model, rates):
    layer = kt.SinusoidalPositionEncoding(rates)
    positions = [0, 1, 2, 127, 128, 129, 999, 1000, 5000, 12_345, 16_383]
    expected = [
        reference.sinusoid(place, d_model, rates) for place in positions
    ]
    inputs = np.zeros((1, len(positions), d_model), "float32")
    found = helpers.to_numpy(layer(inputs, np.array([positions], "int32")))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=4e-7)
    by_default = helpers.to_numpy(layer(inputs + 1))[0, :3] - 1
    np.testing.assert_allclose(by_default, expected[:3], rtol=0, atol=4e-7)


def test_initial_values_are_the_same_on_every_backend():
    keras.utils.set_random_seed(3)
    values = []
    for layer in (kt.SharedEmbedding(90, 64), kt.LearnedPositionEmbedding(90)):
        layer.build((None, None, 64))
        values.append(helpers.to_numpy(layer.embeddings))
        assert abs(values[-1].std() * 8 - 1) < 0.03
        assert abs(values[-1].mean()) < 0.01
    assert not np.array_equal(*values)
    recorded = [0.044691995, 0.048343167]
    np.testing.assert_allclose([each[0, 0] for each in values], recorded)


def test_initial_values_are_glorots_by_the_widths_of_each_block():
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


def test_lora_of_keras_adds_a_product_to_a_kernel():
    layer = Projection([6, 6, 10], frozen_bias=1)
    layer.build(STATES.shape)
    helpers.randomise(layer)
    kernel, bias = map(helpers.to_numpy, (layer.kernel, layer.bias))
    layer.enable_lora(2, lora_alpha=6)
    trained = [layer.lora_kernel_a, layer.lora_kernel_b]
    for weight in trained:
        weight.assign(keras.random.normal(weight.shape))
    a, b = map(helpers.to_numpy, trained)
    expected = STATES @ (kernel + 3 * a @ b) + bias
    assert helpers.relative_error(layer(STATES), expected) <= 1e-5
