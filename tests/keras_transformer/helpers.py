"""What the tests of this folder share: models, weights, comparison."""

import functools

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.parsing.parser_transformer import new_transformer

SMALL = {
    "vocabulary_size": 11,
    "num_layers": 2,
    "d_model": 12,
    "d_ff": 10,
    "num_heads": 2,
    "d_k": 3,
    "d_v": 5,
    "max_positions": 24,
    "dropout": 0.0,
    "stop_criterion": "exact",
}

# JAX compiles each operation of an eager call on its own, which takes seconds
# for a new shape; as one function it takes half of one. TensorFlow is fastest
# where nothing is compiled, on models this small.
JITTED = keras.backend.backend() == "jax"

# Every switch of the architecture at least once; each is compared with the
# reference, stepped through its cache, and differentiated.
WORD_IDS = {"first_source_word_id": 7, "first_target_word_id": 8}
VARIANTS = {
    "paper": {},
    "pre-norm": {
        "norm": "pre",
        "activation": "gelu",
        "num_heads": 1,
        "d_k": 7,
        "d_v": 4,
    },
    "learned": {
        "positions": "learned",
        "share_embeddings": "none",
        "output_bias": True,
    },
    # Of the source vocabulary, sentences that are made here have the first 11.
    "unlike sides": {
        "attention_bias": False,
        "source_vocabulary_size": 17,
        "share_embeddings": "target-softmax",
        "num_decoder_layers": 1,
    },
    "window": {"attention_window": 1},
    "next-word": {"positions": "next-word", **WORD_IDS},
    "marian": {
        "output_bias": True,
        "sinusoid_rates": "marian",
        "layer_norm_epsilon": 1e-5,
        "activation": "silu",
    },
}


def config(**changes) -> kt.TransformerConfig:
    return kt.TransformerConfig(**{**SMALL, **changes})


def randomise(layer, seed: int = 0, scale: float = 1.0) -> None:
    """Random values for all weights, biases and norms among them."""
    generator = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        value = generator.normal(size=weight.shape)
        if weight.name == "gamma":
            value = 1.0 + 0.3 * value
        elif len(weight.shape) == 2 and weight.name != "embeddings":
            value = scale * value * weight.shape[0] ** -0.5
        elif weight.name == "embeddings":
            value = scale * value * weight.shape[1] ** -0.5
        else:
            value = 0.3 * value
        weight.assign(value.astype("float32"))


def fix_feature_0(model, constant):
    """Makes feature 0 of the decoder's output a constant."""
    last = model.decoder.layers[-1].feed_forward_residual.layer_norm
    if model.config.norm == "pre":
        last = model.decoder.final_norm
    for weight, value in ((last.gamma, 0.0), (last.beta, constant)):
        values = to_numpy(weight)
        values[0] = value
        weight.assign(values)


@functools.cache
def variant(name: str) -> kt.Transformer:
    """A model with random weights, which no test may change."""
    model = new_transformer(config(**VARIANTS[name]))
    randomise(model, seed=1)
    return model


def weights_by_name(layer) -> dict[str, np.ndarray]:
    """Float64 arrays under their path within the layer."""
    return {
        weight.path.split("/", 1)[1]: to_numpy(weight)
        for weight in layer.trainable_variables
    }


def to_numpy(tensor) -> np.ndarray:
    """Float64, from any backend and any float type."""
    array = keras.ops.convert_to_tensor(tensor)
    # Not keras.ops.convert_to_numpy: on a tf.Variable it warns of NumPy 2.
    if hasattr(array, "detach"):
        array = array.detach().double()
    array = array.numpy() if hasattr(array, "numpy") else np.asarray(array)
    return array.astype("float64")


def relative_error(actual, expected) -> float:
    """Largest difference over the largest magnitude expected."""
    actual = actual if isinstance(actual, np.ndarray) else to_numpy(actual)
    assert actual.shape == expected.shape
    assert np.isfinite(actual).all()
    return np.abs(actual - expected).max() / np.abs(expected).max()


def sentences(generator, lengths, width: int, vocabulary: int = 11):
    """Int32 [len(lengths), width]: random words, then padding."""
    ids = generator.integers(4, vocabulary, (len(lengths), width))
    ids[np.arange(width) >= np.array(lengths)[:, None]] = 0
    return ids.astype("int32")


def padded_inputs(seed: int = 3) -> dict[str, np.ndarray]:
    """Three pairs of unequal lengths; targets begin with the begin id."""
    generator = np.random.default_rng(seed)
    target = sentences(generator, [4, 6, 1], 6)
    target[:, 0] = 2
    return {"source": sentences(generator, [5, 2, 3], 5), "target": target}


def jitted(function):
    """The function as fast as the backend runs it the first few times."""
    if not JITTED:
        return function
    import jax

    return jax.jit(function)


jitted_once = functools.cache(jitted)


@functools.cache
def compiled_once(function):
    """The function as fast as the backend runs it many times in one shape."""
    if JITTED:
        return jitted(function)
    import tensorflow as tf

    return tf.function(function, autograph=False)


def logits(model, inputs) -> np.ndarray:
    """The model's logits, dropout off."""
    return to_numpy(jitted_once(model)(inputs))


def newer_keras(*version, backend=None):
    """Skips a test of what older versions of Keras lack, on one backend."""
    found = tuple(map(int, keras.__version__.split(".")[:2]))
    is_old = found < version and backend in (None, keras.backend.backend())
    return pytest.mark.skipif(is_old, reason=f"Keras {keras.__version__}")
