"""Layers, models and weights saved and loaded, as Keras' users do."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers


@pytest.mark.parametrize("name", ["pre-norm", "unlike sides", "next-word"])
def test_saved_models_and_weights_give_the_same_logits(name, tmp_path):
    model, inputs = helpers.variant(name), helpers.padded_inputs()
    expected = helpers.logits(model, inputs)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is type(model)
    assert again.config == model.config
    np.testing.assert_array_equal(helpers.logits(again, inputs), expected)
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = type(model)(model.config)
    fresh.load_weights(tmp_path / "model.weights.h5")
    for each in (again, fresh):
        for weight, wanted in zip(each.weights, model.weights, strict=True):
            np.testing.assert_array_equal(
                helpers.to_numpy(weight), helpers.to_numpy(wanted)
            )
    if model.config.share_embeddings == "all":
        assert again.source_embedding is again.target_embedding
        assert again.output_embedding is again.target_embedding


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


def fitted(config):
    """A model as the README compiles it, after one update."""
    keras.utils.set_random_seed(1)
    model = kt.Transformer(config)
    model.compile(
        optimizer=keras.optimizers.Adam(
            kt.TransformerSchedule(config.d_model, config.warmup_steps),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            global_clipnorm=config.clip_norm or None,
        ),
        loss=kt.LabelSmoothedCrossEntropy(config.label_smoothing),
        jit_compile=helpers.JITTED,
        run_eagerly=not helpers.JITTED,
    )
    update(model)
    return model


def update(model):
    inputs = helpers.padded_inputs()
    model.fit(inputs, inputs["target"], batch_size=8, shuffle=False, verbose=0)


def seeds(model):
    """The states of dropout's random numbers."""
    return [each for each in model.variables if "seed" in each.path]


def check_equal(one, other, allowed=0.0):
    """Weights, and the optimizer's moments and steps."""
    for part in (lambda model: model.weights, lambda m: m.optimizer.variables):
        for value, wanted in zip(part(other), part(one), strict=True):
            value, wanted = map(helpers.to_numpy, (value, wanted))
            np.testing.assert_allclose(value, wanted, rtol=0, atol=allowed)


def test_a_loaded_model_resumes_its_training(tmp_path):
    model = fitted(helpers.config(num_layers=1, dropout=0.1, clip_norm=25.0))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert again.loss.get_config() == model.loss.get_config()
    check_equal(model, again)
    # Keras does not save these.
    for state, wanted in zip(seeds(again), seeds(model), strict=True):
        state.assign(keras.ops.convert_to_numpy(wanted))
    update(model)
    model.save_weights(tmp_path / "model.weights.h5")
    update(again)
    assert int(again.optimizer.iterations) == 2
    # What is compiled twice rounds in two ways.
    check_equal(model, again, 1e-5 if helpers.JITTED else 0.0)
    update(again)
    again.load_weights(tmp_path / "model.weights.h5")
    check_equal(model, again)
