"""One layer of the encoder: section 3.1."""

import keras

from keras_transformer.layers import sublayers
from keras_transformer.layers.configured import ConfiguredLayer


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(ConfiguredLayer):
    """Self-attention, then a feed-forward network, each with its residual.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        dtype = self.dtype_policy
        self.self_attention = sublayers.attention(
            config, dtype, "self_attention", config.attention_window
        )
        self.self_attention_residual = sublayers.residual(
            config, dtype, "self_attention_residual"
        )
        self.feed_forward = sublayers.feed_forward(
            config, dtype, "feed_forward"
        )
        self.feed_forward_residual = sublayers.residual(
            config, dtype, "feed_forward_residual"
        )

    def build(self, input_shape):
        """Makes the weights for inputs [B, S, D]."""
        self.self_attention.build(input_shape)
        self.self_attention_residual.build(input_shape)
        self.feed_forward.build(input_shape)
        self.feed_forward_residual.build(input_shape)
        self.built = True

    def call(
        self, inputs, attention_mask=None, training=False, return_weights=False
    ):
        """Applies the layer.

        Args:
            inputs: float [B, S, D].
            attention_mask: boolean, broadcastable to [B, S, S], True where
                the first S may attend to the second.
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, S, D]; with `return_weights` a pair of that and float32
            [B, H, S, S].
        """
        states = self.self_attention_residual.enter(inputs)
        states, weights = self.self_attention(
            states,
            attention_mask=attention_mask,
            training=training,
            return_weights=True,
        )
        states = self.self_attention_residual.leave(
            inputs, states, training=training
        )
        outputs = self.feed_forward_residual.enter(states)
        outputs = self.feed_forward(outputs, training=training)
        outputs = self.feed_forward_residual.leave(
            states, outputs, training=training
        )
        return (outputs, weights) if return_weights else outputs
