"""One of each layer, and what it is called on."""

import functools

import numpy as np

import keras_transformer as kt

# Arguments of encoder and decoder layers.
ARGUMENTS = {
    "intermediate_dim": 10,
    "num_heads": 2,
    "key_dim": 3,
    "value_dim": 5,
    "dropout": 0.3,
    "normalize_first": True,
    "attention_window": 2,
}
STATES = np.random.default_rng(1).normal(size=(2, 4, 12)).astype("float32")
MEMORY = np.random.default_rng(2).normal(size=(2, 3, 12)).astype("float32")
IDS = np.array([[4, 0, 10], [1, 1, 3]], "int32")
SELF_ATTENTION = {"dropout": 0.1, "use_bias": False, "attention_window": 2}

# (class, its arguments, the arrays it takes)
_SAMPLES = {
    "self-attention": (
        *(kt.MultiHeadAttention, (2, 3, 5), SELF_ATTENTION),
        [STATES],
    ),
    "cross-attention": (kt.MultiHeadAttention, (2, 3, 5), {}, [STATES, MEMORY]),
    "feed-forward": (
        *(kt.PositionwiseFeedForward, (10, "gelu", 0.2), {}),
        [STATES],
    ),
    "residual": (
        *(kt.ResidualConnection, (True, 0.2, 1e-3), {}),
        [STATES, 2 * STATES],
    ),
    "embedding": (kt.SharedEmbedding, (11, 12), {"output_bias": True}, [IDS]),
    "sinusoid": (kt.SinusoidalPositionEncoding, ("marian",), {}, [STATES]),
    "learned positions": (kt.LearnedPositionEmbedding, (9,), {}, [STATES]),
    "encoder layer": (kt.EncoderLayer, (), ARGUMENTS, [STATES]),
    "decoder layer": (kt.DecoderLayer, (), ARGUMENTS, [STATES, MEMORY]),
    "encoder": (kt.Encoder, (1,), ARGUMENTS, [STATES]),
    "decoder": (kt.Decoder, (1,), ARGUMENTS, [STATES, MEMORY]),
}
# (how to make it, the arrays it takes)
LAYERS = {
    name: (functools.partial(kind, *args, **kwargs), arrays)
    for name, (kind, args, kwargs, arrays) in _SAMPLES.items()
}


def make(name: str):
    """A fresh layer, not yet built, and its arrays."""
    maker, inputs = LAYERS[name]
    return maker(), inputs
