import keras
import pytest


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
