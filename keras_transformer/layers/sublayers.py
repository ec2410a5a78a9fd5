"""The sub-layers that encoder and decoder layers are put together from."""

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.layer_norm import LayerNorm
from keras_transformer.layers.residual import ResidualConnection


def attention(config, dtype, name, window=0):
    """Returns the attention that a configuration describes."""
    return MultiHeadAttention(
        config.d_model,
        config.num_heads,
        config.d_k,
        config.d_v,
        dropout=config.attention_dropout,
        use_bias=config.attention_bias,
        window=window,
        dtype=dtype,
        name=name,
    )


def feed_forward(config, dtype, name):
    """Returns the feed-forward network that a configuration describes."""
    return PositionwiseFeedForward(
        config.d_model,
        config.d_ff,
        activation=config.activation,
        dropout=config.activation_dropout,
        dtype=dtype,
        name=name,
    )


def residual(config, dtype, name):
    """Returns the residual connection that a configuration describes."""
    return ResidualConnection(
        config.norm,
        config.dropout,
        config.layer_norm_epsilon,
        dtype=dtype,
        name=name,
    )


def final_norm(config, dtype):
    """Returns what ends a stack: a norm when pre-norm, else nothing."""
    if config.norm == "post":
        return keras.layers.Identity(dtype=dtype, name="final_norm")
    return LayerNorm(
        epsilon=config.layer_norm_epsilon, dtype=dtype, name="final_norm"
    )
