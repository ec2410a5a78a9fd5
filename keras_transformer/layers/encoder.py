"""The encoder and its layers: section 3.1."""

import keras

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
        self.self_attention = self.new_attention(
            "self_attention", config.attention_window
        )
        self.self_attention_residual = self.new_residual(
            "self_attention_residual"
        )
        self.feed_forward = self.new_feed_forward("feed_forward")
        self.feed_forward_residual = self.new_residual("feed_forward_residual")

    def build(self, input_shape):
        """Makes the weights for inputs [B, S, D]."""
        self.require_width(input_shape, self.config.d_model)
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
                the first S may attend to the second; or a SelfMask.
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, S, D]; with `return_weights` a pair of that and float32
            [B, H, S, S].
        """
        states = self.self_attention_residual.enter(inputs)
        states, weights = self.attend_to_itself(
            states, attention_mask, training, return_weights
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


@keras.saving.register_keras_serializable("keras_transformer")
class Encoder(ConfiguredLayer):
    """A stack of N encoder layers, with a final norm when pre-norm.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        dtype = self.dtype_policy
        self.layers = [
            EncoderLayer(config, dtype=dtype, name=f"layer_{number}")
            for number in range(1, config.num_layers + 1)
        ]
        self.final_norm = self.new_final_norm()

    def build(self, input_shape):
        """Makes the weights for inputs [B, S, D]."""
        self.require_width(input_shape, self.config.d_model)
        for layer in self.layers:
            layer.build(input_shape)
        self.final_norm.build(input_shape)
        self.built = True

    def call(
        self, inputs, attention_mask=None, training=False, return_weights=False
    ):
        """Applies the stack.

        Args:
            inputs: float [B, S, D], embedded and with positions.
            attention_mask: boolean, True where the first S may attend to the
                second: [B, S] for the second, or broadcastable to [B, S, S]
                with as many axes; or a SelfMask.
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, S, D]; with `return_weights` a pair of that and a list
            of N float32 [B, H, S, S].
        """
        attention_mask = self.mask_of_layers(attention_mask, inputs)
        outputs, all_weights = inputs, []
        for layer in self.layers:
            outputs = layer(
                outputs,
                attention_mask=attention_mask,
                training=training,
                return_weights=return_weights,
            )
            if return_weights:
                outputs, weights = outputs
                all_weights.append(weights)
        outputs = self.final_norm(outputs)
        return (outputs, all_weights) if return_weights else outputs
