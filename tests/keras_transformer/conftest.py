import os

import keras
import pytest

if keras.backend.backend() == "jax":
    # Before it counts its devices; see test_devices.
    flags = "--xla_force_host_platform_device_count=2"
    os.environ.setdefault("XLA_FLAGS", flags)


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(20170612)


@pytest.fixture(autouse=True, scope="session")
def _whole_float32():
    """No TF32 on a GPU, whose products have but 10 bits."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
