"""The encoder layer and the encoder stack: section 3.1."""

import typing

import keras

from keras_transformer.layers.masks import AttentionMask
from keras_transformer.layers.transformer_layer import (
    TransformerLayer,
    TransformerStack,
)
from keras_transformer.types import Shape, Tensor, TensorLike


@keras.saving.register_keras_serializable("keras_transformer")
class EncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network; see `TransformerLayer`."""

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.self_attention, self.self_attention_residual = self.new_attention(
            "self_attention", self.attention_window
        )
        self.feed_forward, self.feed_forward_residual = self.new_feed_forward(
            "feed_forward"
        )

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs [B, S, D]."""
        self.require_width(input_shape)
        self.self_attention.build(input_shape)
        self.self_attention_residual.build(input_shape)
        self.feed_forward.build(input_shape)
        self.feed_forward_residual.build(input_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        attention_mask: AttentionMask | TensorLike | None = None,
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Applies the layer to float [B, S, D].

        For `attention_mask` see MultiHeadAttention. With
        `return_attention_scores` also returns float32 [B, H, S, S].
        """
        residual = self.self_attention_residual
        attended = self.self_attention(
            residual.normalize_input(inputs, training),
            attention_mask=attention_mask,
            training=training,
            return_attention_scores=return_attention_scores,
        )
        if return_attention_scores:
            attended, scores = attended
        states = residual(inputs, attended, training=training)
        residual = self.feed_forward_residual
        outputs = self.feed_forward(
            residual.normalize_input(states, training), training=training
        )
        outputs = residual(states, outputs, training=training)
        return (outputs, scores) if return_attention_scores else outputs


@keras.saving.register_keras_serializable("keras_transformer")
class Encoder(TransformerStack):
    """N = `num_layers` encoder layers; see `TransformerLayer`."""

    layer_class = EncoderLayer

    def build(self, input_shape: Shape) -> None:
        """Creates the weights for inputs [B, S, D]."""
        self.build_layers(input_shape)

    def call(
        self,
        inputs: Tensor,
        attention_mask: AttentionMask | TensorLike | None = None,
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Applies all layers; scores are a list of N, as in `EncoderLayer`."""
        outputs, all_scores = inputs, []
        for layer in self.layers:
            outputs = layer(
                outputs,
                attention_mask=attention_mask,
                training=training,
                return_attention_scores=return_attention_scores,
            )
            if return_attention_scores:
                outputs, scores = outputs
                all_scores.append(scores)
        outputs = self.normalize_output(outputs, training)
        return (outputs, all_scores) if return_attention_scores else outputs
