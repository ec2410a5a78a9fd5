"""One of each layer, and what it is called on."""

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

# (function that returns a fresh layer, the arrays that it takes)
LAYERS = {
    "self-attention": (
        lambda: kt.MultiHeadAttention(2, 3, 5, **SELF_ATTENTION),
        [STATES],
    ),
    "cross-attention": (
        lambda: kt.MultiHeadAttention(2, 3, 5),
        [STATES, MEMORY],
    ),
    "feed-forward": (
        lambda: kt.PositionwiseFeedForward(10, "gelu", 0.2),
        [STATES],
    ),
    "residual": (
        lambda: kt.ResidualConnection(True, 0.2, 1e-3),
        [STATES, 2 * STATES],
    ),
    "embedding": (lambda: kt.SharedEmbedding(11, 12, output_bias=True), [IDS]),
    "sinusoid": (lambda: kt.SinusoidalPositionEncoding("marian"), [STATES]),
    "learned positions": (lambda: kt.LearnedPositionEmbedding(9), [STATES]),
    "encoder layer": (lambda: kt.EncoderLayer(**ARGUMENTS), [STATES]),
    "decoder layer": (lambda: kt.DecoderLayer(**ARGUMENTS), [STATES, MEMORY]),
    "encoder": (lambda: kt.Encoder(1, **ARGUMENTS), [STATES]),
    "decoder": (lambda: kt.Decoder(1, **ARGUMENTS), [STATES, MEMORY]),
}


def make(name: str):
    """Returns a fresh layer, not yet built, and its arrays."""
    maker, inputs = LAYERS[name]
    return maker(), inputs
