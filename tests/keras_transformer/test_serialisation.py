"""Configurations, models and weights written and read again."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.layers import layer_samples


@pytest.mark.parametrize("name", layer_samples.LAYERS)
def test_layers_from_their_config(name):
    layer, inputs = layer_samples.make(name)
    saved = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(saved)
    direct = type(layer).from_config(layer.get_config())
    layer_samples.build(layer, name)
    for other in (again, direct):
        assert type(other) is type(layer)
        assert other.name == layer.name
        assert other.get_config() == layer.get_config()
        layer_samples.build(other, name)
        other.set_weights(layer.get_weights())
        np.testing.assert_array_equal(
            helpers.to_numpy(other(*inputs)), helpers.to_numpy(layer(*inputs))
        )


@pytest.mark.parametrize("name", ["self-attention", "encoder"])
def test_layers_keep_their_dtype_policy(name):
    layer, inputs = layer_samples.make(name)
    layer.dtype_policy = "mixed_bfloat16"
    again = type(layer).from_config(layer.get_config())
    assert again.dtype_policy.name == "mixed_bfloat16"
    outputs = again(*inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_saved_models_give_the_same_logits(name, tmp_path):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is kt.Transformer
    assert again.config == model.config
    np.testing.assert_array_equal(
        helpers.logits(again, inputs), helpers.logits(model, inputs)
    )


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_saved_weights_fit_a_fresh_model(name, tmp_path):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    fresh = kt.Transformer(model.config)
    before = helpers.logits(fresh, inputs)
    assert np.abs(before - helpers.logits(model, inputs)).max() > 0.1
    fresh.load_weights(path)
    for weight, wanted in zip(fresh.weights, model.weights):
        np.testing.assert_array_equal(
            helpers.to_numpy(weight), helpers.to_numpy(wanted)
        )
    np.testing.assert_array_equal(
        helpers.to_numpy(fresh(inputs)), helpers.to_numpy(model(inputs))
    )


def test_a_shared_matrix_stays_shared(tmp_path):
    model = helpers.variant("paper")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.source_embedding is again.target_embedding
    assert again.output_embedding is again.target_embedding
    assert len(again.weights) == len(model.weights)


def test_paths_of_weights_are_unique_and_stable():
    """Checkpoints and exports refer to weights by these names."""
    paths = helpers.weights_by_name(helpers.variant("pre-norm")).keys()
    assert len(paths) == len(helpers.variant("pre-norm").weights)
    assert {
        "target_embedding/embeddings",
        "encoder/layer_1/self_attention/query_key_value/kernel",
        "encoder/layer_2/feed_forward_residual/layer_norm/gamma",
        "encoder/final_norm/beta",
        "decoder/layer_1/cross_attention/key_value/bias",
        "decoder/layer_2/feed_forward/inner_projection/kernel",
    } <= paths
