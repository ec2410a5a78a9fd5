"""Position-wise feed-forward networks: section 3.3."""

import typing

import keras

from keras_transformer.kernels import Dropout
from keras_transformer.layers.base import (
    Projection,
    SequenceLayer,
    validate_counts,
)
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable("keras_transformer")
class PositionwiseFeedForward(SequenceLayer):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (formula 2).

    `intermediate_dim` is F, the inner width. `activation` is "relu" in the
    paper, or another elementwise Keras activation. `dropout` drops inner
    activations (`activation_dropout` of the Transformer).
    """

    config_names = "intermediate_dim", "activation", "dropout"

    def __init__(
        self,
        intermediate_dim: int,
        activation: str = "relu",
        dropout: float = 0.0,
        **kwargs: typing.Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = activation
        self.dropout = dropout
        validate_counts(self, "intermediate_dim")
        self._activate = keras.activations.get(activation)
        self.inner_projection = Projection(
            [intermediate_dim], dtype=self.dtype_policy, name="inner_projection"
        )
        self.inner_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="inner_dropout"
        )

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs [B, T, D]."""
        self.require_width(input_shape)
        self.inner_projection.build(input_shape)
        width: typing.Any = input_shape[-1]
        self.output_projection = Projection(
            [width], dtype=self.dtype_policy, name="output_projection"
        )
        self.output_projection.build((*input_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Maps float [B, T, D] to float [B, T, D]."""
        inner = self._activate(self.inner_projection(inputs, training=training))
        inner = self.inner_dropout(inner, training=training)
        return self.output_projection(inner, training=training)
