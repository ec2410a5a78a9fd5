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

# (how to make it, the arrays it takes, the shapes that its build takes)
LAYERS = {
    "self-attention": (
        functools.partial(
            kt.MultiHeadAttention,
            2,
            3,
            5,
            dropout=0.1,
            use_bias=False,
            attention_window=2,
            name="mine",
        ),
        (STATES,),
        1,
    ),
    "cross-attention": (
        functools.partial(kt.MultiHeadAttention, 2, 3, 5),
        (STATES, MEMORY),
        2,
    ),
    "feed-forward": (
        functools.partial(kt.PositionwiseFeedForward, 10, "gelu", 0.2),
        (STATES,),
        1,
    ),
    "residual": (
        functools.partial(kt.ResidualConnection, True, 0.2, 1e-3),
        (STATES, 2 * STATES),
        1,
    ),
    "embedding": (functools.partial(kt.SharedEmbedding, 11, 12), (IDS,), 1),
    "output bias": (
        functools.partial(kt.SharedEmbedding, 11, 12, output_bias=True),
        (IDS,),
        1,
    ),
    "marian's sinusoid": (
        functools.partial(kt.SinusoidalPositionEncoding, "marian"),
        (STATES,),
        1,
    ),
    "sinusoid": (kt.SinusoidalPositionEncoding, (STATES,), 1),
    "learned positions": (
        functools.partial(kt.LearnedPositionEmbedding, 9),
        (STATES,),
        1,
    ),
    "encoder layer": (
        functools.partial(kt.EncoderLayer, **ARGUMENTS),
        (STATES,),
        1,
    ),
    "decoder layer": (
        functools.partial(kt.DecoderLayer, **ARGUMENTS),
        (STATES, MEMORY),
        2,
    ),
    "encoder": (functools.partial(kt.Encoder, 2, **ARGUMENTS), (STATES,), 1),
    "decoder": (
        functools.partial(kt.Decoder, 2, **ARGUMENTS),
        (STATES, MEMORY),
        2,
    ),
}


def make(name: str):
    """A fresh layer, not yet built, and its arrays."""
    maker, inputs, _ = LAYERS[name]
    return maker(), inputs


def build(layer, name: str) -> None:
    """As a parent does that knows its shapes."""
    _, inputs, shapes = LAYERS[name]
    layer.build(*(part.shape for part in inputs[:shapes]))
