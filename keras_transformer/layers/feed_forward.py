"""Position-wise feed-forward networks: section 3.3."""

import keras

from keras_transformer.kernels.layers import Dropout
from keras_transformer.kernels.projections import linear
from keras_transformer.layers.sequence_layer import (
    SequenceLayer,
    require_counts,
)


@keras.saving.register_keras_serializable("keras_transformer")
class PositionwiseFeedForward(SequenceLayer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (formula 2).

    Args:
        d_model: D, width of inputs and outputs.
        d_ff: F, inner width.
        activation: "relu" as in the paper, or another Keras activation.
        dropout: probability of dropping an inner activation.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, d_model, d_ff, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.d_model = d_model
        self.d_ff = d_ff
        self.activation = activation
        self.dropout = dropout
        require_counts(self, "d_model", "d_ff")
        # Refuses what Keras does not know.
        keras.activations.get(activation)
        self.inner_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="inner_dropout"
        )

    def build(self, input_shape):
        """Makes the weights: input_shape is [B, T, D]."""
        self.require_width(input_shape)
        self.inner_kernel = self.add_weight(
            name="inner_kernel", shape=(input_shape[-1], self.d_ff)
        )
        self.inner_bias = self.add_weight(
            name="inner_bias", shape=(self.d_ff,), initializer="zeros"
        )
        self.output_kernel = self.add_weight(
            name="output_kernel", shape=(self.d_ff, self.d_model)
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.d_model,), initializer="zeros"
        )
        self.built = True

    def call(self, inputs, training=False):
        """Maps float [B, T, D] to float [B, T, D]."""
        activate = keras.activations.get(self.activation)
        inner = activate(linear(inputs, self.inner_kernel, self.inner_bias))
        inner = self.inner_dropout(inner, training=training)
        return linear(inner, self.output_kernel, self.output_bias)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the output."""
        return (*input_shape[:-1], self.d_model)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "activation": self.activation,
            "dropout": self.dropout,
        }
