"""The residual connection around each sub-layer: sections 3.1 and 5.4."""

import keras

from keras_transformer.kernels.layers import Dropout, LayerNorm
from keras_transformer.layers.sequence_layer import SequenceLayer


@keras.saving.register_keras_serializable("keras_transformer")
class ResidualConnection(SequenceLayer):
    """LayerNorm(x + Dropout(Sublayer(x))), or the pre-norm arrangement.

    A sub-layer stands between `enter` and `leave`:

        y = connection.enter(x)
        y = sublayer(y)
        x = connection.leave(x, y, training=training)

    Args:
        norm: "post" (the paper) or "pre": x + Dropout(Sublayer(LayerNorm(x))).
        dropout: probability of dropping an output of the sub-layer.
        epsilon: added to the variance.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: `norm` is neither "post" nor "pre", or the outputs have
            another width than the inputs.
    """

    def __init__(self, norm="post", dropout=0.0, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be post or pre, not {norm!r}.")
        self.norm = norm
        self.dropout = dropout
        self.epsilon = epsilon
        self.layer_norm = LayerNorm(
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

    def enter(self, inputs):
        """Returns what the sub-layer gets: float [B, T, D]."""
        return self.layer_norm(inputs) if self.norm == "pre" else inputs

    def leave(self, inputs, outputs, training=False):
        """Joins the sub-layer's outputs to its inputs: float [B, T, D]."""
        joined = inputs + self.output_dropout(outputs, training=training)
        return self.layer_norm(joined) if self.norm == "post" else joined

    def call(self, inputs, outputs, training=False):
        """Same as `leave`."""
        return self.leave(inputs, outputs, training=training)

    def compute_output_shape(self, inputs_shape, outputs_shape=None):
        """Returns the shape of the inputs."""
        del outputs_shape
        return tuple(inputs_shape)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "norm": self.norm,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
        }
