"""Layers and sub-layers made from a TransformerConfig."""

import dataclasses

import keras

from keras_transformer.config import TransformerConfig
from keras_transformer.kernels.layer_norm import LayerNorm
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.residual import ResidualConnection


class ConfiguredLayer(keras.layers.Layer):
    """A layer made from a TransformerConfig, and saved with it.

    Args:
        config: the TransformerConfig; also the attribute `config`.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.supports_masking = True

    def get_config(self):
        """Returns the constructor's arguments."""
        fields = dataclasses.asdict(self.config)
        return {**super().get_config(), "config": fields}

    @classmethod
    def from_config(cls, config):
        """Makes the layer from what `get_config` returned."""
        arguments = dict(config)
        fields = arguments.pop("config")
        return cls(TransformerConfig(**fields), **arguments)


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
