"""What encoder and decoder have in common: arguments and kinds of sub-layer."""

from keras_transformer.kernels import LayerNormalization
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.residual import ResidualConnection
from keras_transformer.layers.sequence_layer import SequenceLayer


class TransformerLayer(SequenceLayer):
    """Base of the encoder's and the decoder's layers and stacks.

    Args:
        intermediate_dim: F, inner width of the feed-forward network.
        num_heads: H.
        key_dim: d_k, width of each head's queries and keys.
        value_dim: d_v, width of each head's values; None for `key_dim`.
        activation: of the feed-forward network, a Keras activation's name.
        dropout: of each sub-layer's output.
        attention_dropout: of attention weights.
        activation_dropout: after the feed-forward activation.
        layer_norm_epsilon: added to the variance.
        normalize_first: False for post-norm (the paper), True for pre-norm.
        attention_window: r of restricted self-attention; 0 is off.
        use_bias: whether attention's projections have biases.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        key_dim,
        value_dim=None,
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        layer_norm_epsilon=1e-6,
        normalize_first=False,
        attention_window=0,
        use_bias=True,
        **kwargs,
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

    def layer_arguments(self):
        """Returns this class's own arguments, by name."""
        return {
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "activation": self.activation,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "normalize_first": self.normalize_first,
            "attention_window": self.attention_window,
            "use_bias": self.use_bias,
        }

    def new_attention(self, name, attention_window=0):
        """Returns a MultiHeadAttention."""
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            attention_window=attention_window,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_feed_forward(self, name):
        """Returns a PositionwiseFeedForward."""
        return PositionwiseFeedForward(
            self.intermediate_dim,
            activation=self.activation,
            dropout=self.activation_dropout,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_residual(self, name):
        """Returns a ResidualConnection."""
        return ResidualConnection(
            self.normalize_first,
            self.dropout,
            self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )

    def new_final_norm(self):
        """Returns the normalisation that ends a pre-norm stack, or None."""
        if not self.normalize_first:
            return None
        return LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name="final_norm",
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self.layer_arguments()}
