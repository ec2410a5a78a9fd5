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

_partial = functools.partial
_SELF_ATTENTION = _partial(
    kt.MultiHeadAttention,
    *(2, 3, 5),
    dropout=0.1,
    use_bias=False,
    attention_window=2,
    name="mine",
)
_OUTPUT_BIAS = _partial(kt.SharedEmbedding, 11, 12, output_bias=True)
_FEED_FORWARD = _partial(kt.PositionwiseFeedForward, 10, "gelu", 0.2)
_RESIDUAL = _partial(kt.ResidualConnection, True, 0.2, 1e-3)

# (how to make it, the arrays it takes)
LAYERS = {
    "self-attention": (_SELF_ATTENTION, [STATES]),
    "cross-attention": (
        _partial(kt.MultiHeadAttention, 2, 3, 5),
        [STATES, MEMORY],
    ),
    "feed-forward": (_FEED_FORWARD, [STATES]),
    "residual": (_RESIDUAL, [STATES, 2 * STATES]),
    "embedding": (_partial(kt.SharedEmbedding, 11, 12), [IDS]),
    "output bias": (_OUTPUT_BIAS, [IDS]),
    "marian's sinusoid": (
        _partial(kt.SinusoidalPositionEncoding, "marian"),
        [STATES],
    ),
    "sinusoid": (kt.SinusoidalPositionEncoding, [STATES]),
    "learned positions": (_partial(kt.LearnedPositionEmbedding, 9), [STATES]),
    "encoder layer": (_partial(kt.EncoderLayer, **ARGUMENTS), [STATES]),
    "decoder layer": (
        _partial(kt.DecoderLayer, **ARGUMENTS),
        [STATES, MEMORY],
    ),
    "encoder": (_partial(kt.Encoder, 2, **ARGUMENTS), [STATES]),
    "decoder": (_partial(kt.Decoder, 2, **ARGUMENTS), [STATES, MEMORY]),
}


def make(name: str):
    """A fresh layer, not yet built, and its arrays."""
    maker, inputs = LAYERS[name]
    return maker(), inputs


def build(layer, name: str) -> None:
    """As a parent does that knows its shapes."""
    layer.build(*(part.shape for part in LAYERS[name][1]))
