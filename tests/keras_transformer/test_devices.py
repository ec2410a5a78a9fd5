"""Losses and updates under XLA, mixed precision and on several devices."""

import functools

import keras
import pytest

import keras_transformer as kt
from tests.keras_transformer import device_fits, helpers

BACKEND = keras.backend.backend()
FASTEST = {"jit_compile": helpers.JITTED, "run_eagerly": not helpers.JITTED}


@functools.cache
def expected():
    return device_fits.fit_all(**FASTEST)


# Keras 3.10 takes an unknown length for 83, on JAX.
takes_unknown_lengths = helpers.newer_keras(3, 12, backend="jax")


@takes_unknown_lengths
def test_all_public_layers_and_models_are_fitted():
    classes = [each for each in vars(kt).values() if isinstance(each, type)]
    layers = {each for each in classes if issubclass(each, keras.Layer)}
    fitted = {type(each) for each in device_fits.new_functional().layers}
    models = {type(make()) for make in device_fits.MODELS.values()}
    assert layers - fitted - models == set()


@takes_unknown_lengths
@pytest.mark.parametrize(
    "policy",
    ["mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)],
)
def test_mixed_precision_changes_little(policy):
    wanted = expected()
    keras.config.set_dtype_policy(policy)
    try:
        found = device_fits.fit_all(**FASTEST)
    finally:
        keras.config.set_dtype_policy("float32")
    device_fits.assert_same(found, wanted, 0.1)


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "tensorflow", reason="JAX always compiles")
def test_xla_changes_nothing():
    device_fits.assert_same(
        device_fits.fit_all(jit_compile=True), expected(), 1e-4
    )


@takes_unknown_lengths
@pytest.mark.skipif(BACKEND != "jax", reason="see test_replicas")
def test_data_parallel_changes_nothing():
    import jax

    assert len(jax.devices()) > 1
    wanted = expected()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    try:
        found = device_fits.fit_all()
    finally:
        keras.distribution.set_distribution(None)
    device_fits.assert_same(found, wanted, 1e-4)
