"""The residual connection around each sub-layer: sections 3.1 and 5.4."""

import keras

from keras_transformer.kernels import Dropout, LayerNormalization
from keras_transformer.layers.sequence_layer import SequenceLayer


@keras.saving.register_keras_serializable("keras_transformer")
class ResidualConnection(SequenceLayer):
    """LayerNorm(x + Dropout(Sublayer(x))), or the pre-norm arrangement.

    Around a sub-layer:

        y = sublayer(residual.normalize_input(x))
        x = residual(x, y, training=training)

    Args:
        normalize_first: False for post-norm (the paper), True for pre-norm:
            x + Dropout(Sublayer(LayerNorm(x))).
        dropout: probability of dropping an output of the sub-layer.
        epsilon: added to the variance.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: the outputs have another width than the inputs.
    """

    def __init__(
        self, normalize_first=False, dropout=0.0, epsilon=1e-6, **kwargs
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.normalize_first = normalize_first
        self.dropout = dropout
        self.epsilon = epsilon
        self.layer_norm = LayerNormalization(
            epsilon=epsilon, dtype=self.dtype_policy, name="layer_norm"
        )
        self.output_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="output_dropout"
        )

    def build(self, inputs_shape, outputs_shape=None):
        """Makes the weights of the normalisation."""
        self.require_width(outputs_shape or inputs_shape, inputs_shape[-1])
        self.layer_norm.build(inputs_shape)
        self.output_dropout.build(inputs_shape)
        self.built = True

    def normalize_input(self, inputs, training=False):
        """Returns the sub-layer's input: float [B, T, D]."""
        if not self.normalize_first:
            return inputs
        return self.layer_norm(inputs, training=training)

    def call(self, inputs, outputs, training=False):
        """Adds the sub-layer's outputs to its inputs: float [B, T, D]."""
        joined = inputs + self.output_dropout(outputs, training=training)
        if self.normalize_first:
            return joined
        return self.layer_norm(joined, training=training)

    def compute_output_shape(self, inputs_shape, outputs_shape=None):
        """Returns the shape of the inputs."""
        del outputs_shape
        return tuple(inputs_shape)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
