"""What the stacks and their layers have in common: one configuration."""

import dataclasses

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.kernels.layers import LayerNorm
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.masks import SelfMask
from keras_transformer.layers.residual import ResidualConnection
from keras_transformer.layers.sequence_layer import SequenceLayer


class ConfiguredLayer(SequenceLayer):
    """A layer made from a TransformerConfig, and saved with it.

    Its `new_` methods make the sub-layers that the configuration describes.

    Args:
        config: the TransformerConfig; also the attribute `config`.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.supports_masking = True

    def new_attention(self, name, window=0):
        """Returns a MultiHeadAttention."""
        config = self.config
        return MultiHeadAttention(
            config.d_model,
            config.num_heads,
            config.d_k,
            config.d_v,
            dropout=config.attention_dropout,
            use_bias=config.attention_bias,
            window=window,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_feed_forward(self, name):
        """Returns a PositionwiseFeedForward."""
        return PositionwiseFeedForward(
            self.config.d_model,
            self.config.d_ff,
            activation=self.config.activation,
            dropout=self.config.activation_dropout,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_residual(self, name):
        """Returns a ResidualConnection."""
        return ResidualConnection(
            self.config.norm,
            self.config.dropout,
            self.config.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_final_norm(self):
        """Returns what ends a stack: a norm when pre-norm, else nothing."""
        dtype, name = self.dtype_policy, "final_norm"
        if self.config.norm == "post":
            return keras.layers.Identity(dtype=dtype, name=name)
        return LayerNorm(
            epsilon=self.config.layer_norm_epsilon, dtype=dtype, name=name
        )

    def attend_to_itself(self, states, mask, training, return_weights):
        """Calls `self_attention`, which looks at weights only where wanted.

        Returns:
            Its output and its weights, or None.
        """
        attended = self.self_attention(
            states,
            attention_mask=mask,
            training=training,
            return_weights=return_weights,
        )
        return attended if return_weights else (attended, None)

    def mask_of_layers(self, mask, states):
        """Returns what the layers of a stack take as their mask.

        Without a window one matrix is made for all; with one each layer
        makes the parts that it needs.

        Args:
            mask: of self-attention, as `SelfMask.of` takes it.
            states: float [B, Q, D].
        """
        mask = SelfMask.of(mask, states)
        if self.config.attention_window:
            return mask
        return mask.whole(ops.shape(states)[1])

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
