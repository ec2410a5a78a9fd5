"""The decoder layer and the decoder stack: section 3.1."""

import typing
from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.masks import AttentionMask
from keras_transformer.layers.transformer_layer import (
    TransformerLayer,
    TransformerStack,
)
from keras_transformer.types import Shape, Tensor, TensorLike


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and feed-forward network.

    Each has a residual connection. No position attends to later ones (section
    3.2.3). For the arguments see `TransformerLayer`.
    """

    def __init__(self, *args: typing.Any, **kwargs: typing.Any):
        super().__init__(*args, **kwargs)
        self.self_attention, self.self_attention_residual = self.new_attention(
            "self_attention", self.attention_window
        )
        self.cross_attention, self.cross_attention_residual = (
            self.new_attention("cross_attention")
        )
        self.feed_forward, self.feed_forward_residual = self.new_feed_forward(
            "feed_forward"
        )

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:
        """Creates the weights for inputs [B, T, D] and a memory [B, S, D]."""
        self.require_width(inputs_shape)
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        self.cross_attention.build(inputs_shape, memory_shape)
        self.cross_attention_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        memory: Tensor | None = None,
        attention_mask: AttentionMask | TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        self_attention_cache: KVCache | None = None,
        cross_attention_cache: tuple[Tensor, ...] | None = None,
        cache_update_index: Tensor | None = None,
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple:
        """Applies the layer to whole sequences, or to one decoding step.

        Args:
            inputs: float [B, T, D]; with caches [B, K, D], the newest position
                of each of K beams.
            memory: float [B, S, D], the encoder's output; None with caches.
            attention_mask: of positions, joined with the causal mask; with
                caches of slots, boolean [B, K, M], those of each beam's past.
            memory_mask: boolean, [B, S], or broadcastable to [B, T, S].
            self_attention_cache: KVCache, to which this step is written.
            cross_attention_cache: `cross_attention.project_memory(memory)`.
            cache_update_index: int32 scalar, the step to write.
            training: whether dropout is on.
            return_attention_scores: also return the attention weights of self-
                and cross-attention, float32 [B, H, T, T] and [B, H, T, S].

        Returns:
            float, shape of `inputs`; with `return_attention_scores` also both
            weights; with caches also both weights and the updated KVCache.
        """
        decoding = cache_update_index is not None
        self_residual = self.self_attention_residual
        cross_residual = self.cross_attention_residual
        ffn_residual = self.feed_forward_residual
        attended = self.self_attention(
            self_residual.normalize_input(inputs, training),
            attention_mask=attention_mask,
            use_causal_mask=True,
            cache=self_attention_cache,
            cache_update_index=cache_update_index,
            training=training,
            return_attention_scores=return_attention_scores,
        )
        if decoding:
            attended, self_scores, cache = attended
        elif return_attention_scores:
            attended, self_scores = attended
        states = self_residual(inputs, attended, training=training)
        # These scores cost nothing; those of local self-attention would.
        attended, cross_scores = self.cross_attention(
            cross_residual.normalize_input(states, training),
            memory,
            attention_mask=memory_mask,
            cache=cross_attention_cache,
            training=training,
            return_attention_scores=True,
        )
        states = cross_residual(states, attended, training=training)
        outputs = self.feed_forward(
            ffn_residual.normalize_input(states, training), training=training
        )
        outputs = ffn_residual(states, outputs, training=training)
        if decoding:
            return outputs, self_scores, cross_scores, cache
        if return_attention_scores:
            return outputs, self_scores, cross_scores
        return outputs


@keras.saving.register_keras_serializable("keras_transformer")
class Decoder(TransformerStack):
    """N = `num_layers` decoder layers; see `TransformerLayer`."""

    layer_class = DecoderLayer

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:
        """Creates the weights for inputs [B, T, D] and a memory [B, S, D]."""
        self.build_layers(inputs_shape, memory_shape)

    def call(
        self,
        inputs: Tensor,
        memory: Tensor | None = None,
        attention_mask: AttentionMask | TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        self_attention_caches: Sequence[KVCache] | None = None,
        cross_attention_caches: Sequence[tuple[Tensor, ...]] | None = None,
        cache_update_index: Tensor | None = None,
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple:
        """Applies all layers; see `DecoderLayer.call`.

        The caches are from `initial_caches` or the previous step, and from
        `project_memory`; `cache_update_index` counts steps from 0. Weights and
        caches are returned as lists of N.
        """
        decoding = cache_update_index is not None
        if decoding:
            # Steps reuse the slots of a window; see `cache_length`.
            caches: typing.Any = self_attention_caches
            length = ops.shape(caches[0].keys)[2]
            cache_update_index = cache_update_index % length
        no_caches = [None] * self.num_layers
        outputs, extras_of_layers = inputs, []
        for layer, self_cache, cross_cache in zip(
            self.layers,
            self_attention_caches or no_caches,
            cross_attention_caches or no_caches,
        ):
            outputs = layer(
                outputs,
                memory,
                attention_mask=attention_mask,
                memory_mask=memory_mask,
                self_attention_cache=self_cache,
                cross_attention_cache=cross_cache,
                cache_update_index=cache_update_index,
                training=training,
                return_attention_scores=return_attention_scores,
            )
            if decoding or return_attention_scores:
                outputs, *extras = outputs
                extras_of_layers.append(extras)
        outputs = self.normalize_output(outputs, training)
        # Lists of N: self-attention, cross-attention and, if decoding, caches.
        lists_of_extras = [list(each) for each in zip(*extras_of_layers)]
        return (outputs, *lists_of_extras) if lists_of_extras else outputs

    def project_memory(self, memory: Tensor) -> tuple[tuple[Tensor, ...], ...]:
        """Returns each layer's cross-attention cache for a memory [B, S, D]."""
        return tuple(
            layer.cross_attention.project_memory(memory)
            for layer in self.layers
        )

    def initial_caches(
        self,
        batch_size: int | Tensor,
        steps: int | Tensor,
        beams: int,
        cache_class: type[KVCache] = KVCache,
    ) -> tuple[KVCache, ...]:
        """Returns N empty caches for K = `beams`."""
        shape = batch_size, self.num_heads, self.cache_length(steps)

        def zeros(width):
            return ops.zeros((*shape, beams * width), dtype=self.compute_dtype)

        return tuple(
            cache_class(zeros(self.key_dim), zeros(self.value_dim))
            for _ in self.layers
        )

    def cache_length(self, steps: int | Tensor) -> int | Tensor:
        """Returns the cache length for a number of steps.

        With a window of r no step attends to more than r earlier steps, so
        length r + 1 is enough: step t replaces step t - r - 1.
        """
        if not self.attention_window:
            return steps
        minimum = min if isinstance(steps, int) else ops.minimum
        return minimum(steps, self.attention_window + 1)
