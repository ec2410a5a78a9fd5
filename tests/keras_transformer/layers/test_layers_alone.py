"""Layers used as any Keras layer: called at once, and symbolically."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import LAYERS, make

WITH_WEIGHTS = [
    "self-attention",
    "cross-attention",
    "encoder layer",
    "decoder layer",
    "encoder",
    "decoder",
]


def symbols(inputs):
    """Keras inputs of any batch size and length."""
    return [
        keras.Input((None, *part.shape[2:]), dtype=str(part.dtype))
        for part in inputs
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_builds_itself_on_its_first_call(name):
    layer, inputs = make(name)
    outputs = helpers.to_numpy(layer(*inputs))
    assert outputs.shape == (*inputs[0].shape[:2], 12)
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("name", LAYERS)
def test_in_a_functional_model(name):
    layer, inputs = make(name)
    places = symbols(inputs)
    model = keras.Model(places, layer(*places))
    assert model.output_shape == (None, None, 12)
    np.testing.assert_allclose(
        helpers.to_numpy(model(list(inputs))),
        helpers.to_numpy(layer(*inputs)),
        rtol=1e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_attention_weights_in_a_functional_model(name):
    layer, inputs = make(name)
    places = symbols(inputs)
    model = keras.Model(places, layer(*places, return_weights=True))
    actual = keras.tree.flatten(model(list(inputs)))
    expected = keras.tree.flatten(layer(*inputs, return_weights=True))
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(
            helpers.to_numpy(one), helpers.to_numpy(other), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_whole_model_in_a_functional_model(positions):
    transformer = kt.Transformer(helpers.config(positions=positions))
    places = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source", "target")
    }
    model = keras.Model(places, transformer(places))
    assert model.output_shape == (None, None, 11)
    inputs = helpers.padded_inputs()
    np.testing.assert_allclose(
        helpers.to_numpy(model(inputs)),
        helpers.to_numpy(transformer(inputs)),
        rtol=1e-5,
        atol=1e-5,
    )


def test_one_word_gives_no_warning(recwarn):
    """A source or target of a single token is nothing to warn about."""
    ids = np.array([[4]], "int32")
    helpers.variant("paper")({"source": ids, "target": ids})
    assert [str(warning.message) for warning in recwarn] == []
