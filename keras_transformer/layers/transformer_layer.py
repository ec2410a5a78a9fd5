"""Base classes of the encoder and decoder, and residual connections."""

import typing

import keras

from keras_transformer.kernels import Dropout, LayerNormalization
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.base import SequenceLayer
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable("keras_transformer")
class ResidualConnection(SequenceLayer):
    """LayerNorm(x + Dropout(Sublayer(x))): sections 3.1 and 5.4.

    With `normalize_first`, pre-norm: x + Dropout(Sublayer(LayerNorm(x))).
    Around a sub-layer:

        y = sublayer(residual.normalize_input(x))
        x = residual(x, y, training=training)
    """

    config_names = "normalize_first", "dropout", "epsilon"

    def __init__(
        self,
        normalize_first: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-6,
        **kwargs: typing.Any,
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

    def build(
        self, inputs_shape: Shape, outputs_shape: Shape | None = None
    ) -> None:
        """Creates the weights; both shapes have the same width."""
        self.require_width(outputs_shape or inputs_shape, inputs_shape[-1])
        self.layer_norm.build(inputs_shape)
        self.output_dropout.build(inputs_shape)
        self.built = True

    def normalize_input(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Returns the sub-layer's input: float [B, T, D]."""
        if not self.normalize_first:
            return inputs
        return self.layer_norm(inputs, training=training)

    def call(
        self, inputs: Tensor, outputs: Tensor, training: bool = False
    ) -> Tensor:
        """Adds the sub-layer's outputs to its inputs: float [B, T, D]."""
        total = inputs + self.output_dropout(outputs, training=training)
        if self.normalize_first:
            return total
        return self.layer_norm(total, training=training)


class TransformerLayer(SequenceLayer):
    """Base of the encoder and decoder layers and stacks.

    Args:
        intermediate_dim: F, inner width of the feed-forward network.
        num_heads: H.
        key_dim: d_k, query and key width per head.
        value_dim: d_v, value width per head; None for `key_dim`.
        activation: name of the feed-forward network's Keras activation.
        dropout: of each sub-layer's output.
        attention_dropout: of attention weights.
        activation_dropout: after the feed-forward activation.
        layer_norm_epsilon: added to the variance.
        normalize_first: False for post-norm (the paper), True for pre-norm.
        attention_window: r of restricted self-attention; 0 is off.
        use_bias: whether attention projections have biases.
    """

    config_names: tuple[str, ...] = (
        *("intermediate_dim", "num_heads", "key_dim", "value_dim"),
        *("activation", "dropout", "attention_dropout", "activation_dropout"),
        *("layer_norm_epsilon", "normalize_first", "attention_window"),
        "use_bias",
    )

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-6,
        normalize_first: bool = False,
        attention_window: int = 0,
        use_bias: bool = True,
        **kwargs: typing.Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.activation = activation
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.normalize_first = normalize_first
        self.attention_window = attention_window
        self.use_bias = use_bias

    def new_attention(
        self, name: str, attention_window: int = 0
    ) -> tuple[MultiHeadAttention, ResidualConnection]:
        """Returns a MultiHeadAttention and its ResidualConnection."""
        attention = MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            attention_window=attention_window,
            dtype=self.dtype_policy,
            name=name,
        )
        return attention, self._new_residual(name)

    def new_feed_forward(
        self, name: str
    ) -> tuple[PositionwiseFeedForward, ResidualConnection]:
        """Returns a PositionwiseFeedForward and its ResidualConnection."""
        feed_forward = PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            dropout=self.activation_dropout,
            dtype=self.dtype_policy,
            name=name,
        )
        return feed_forward, self._new_residual(name)

    def _new_residual(self, name):
        return ResidualConnection(
            self.normalize_first,
            self.dropout,
            self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=f"{name}_residual",
        )


class TransformerStack(TransformerLayer):
    """Base of encoder and decoder: N layers, and a final norm if pre-norm."""

    layer_class: type[TransformerLayer]
    config_names = "num_layers", *TransformerLayer.config_names

    def __init__(
        self, num_layers: int, *args: typing.Any, **kwargs: typing.Any
    ):
        super().__init__(*args, **kwargs)
        self.num_layers = num_layers
        arguments = {
            name: getattr(self, name) for name in TransformerLayer.config_names
        }
        self.layers = [
            self.layer_class(
                **arguments, dtype=self.dtype_policy, name=f"layer_{index}"
            )
            for index in range(1, num_layers + 1)
        ]
        self.final_norm = None
        if self.normalize_first:
            self.final_norm = LayerNormalization(
                epsilon=self.layer_norm_epsilon,
                dtype=self.dtype_policy,
                name="final_norm",
            )

    def build_layers(self, *shapes: Shape) -> None:
        """Builds all layers for inputs of these shapes."""
        self.require_width(shapes[0])
        for layer in self.layers:
            layer.build(*shapes)
        if self.final_norm:
            self.final_norm.build(shapes[0])
        self.built = True

    def normalize_output(self, outputs: Tensor, training: bool) -> Tensor:
        """Applies the final norm, if any, to the last layer's output."""
        if self.final_norm is None:
            return outputs
        return self.final_norm(outputs, training=training)
