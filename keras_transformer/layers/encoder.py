"""The encoder: section 3.1."""

import keras

from keras_transformer.layers import sublayers
from keras_transformer.layers.configured import ConfiguredLayer
from keras_transformer.layers.encoder_layer import EncoderLayer


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
        self.final_norm = sublayers.final_norm(config, dtype)

    def build(self, input_shape):
        """Makes the weights for inputs [B, S, D]."""
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
                with as many axes.
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, S, D]; with `return_weights` a pair of that and a list
            of N float32 [B, H, S, S].
        """
        outputs, all_weights = inputs, []
        for layer in self.layers:
            outputs, weights = layer(
                outputs,
                attention_mask=attention_mask,
                training=training,
                return_weights=True,
            )
            if return_weights:
                all_weights.append(weights)
        outputs = self.final_norm(outputs)
        return (outputs, all_weights) if return_weights else outputs
