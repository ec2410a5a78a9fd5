"""One layer of the decoder: section 3.1."""

import keras
from keras import ops

from keras_transformer.layers import sublayers
from keras_transformer.layers.configured import ConfiguredLayer


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """Self-attention, cross-attention and feed-forward, each with a residual.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        dtype = self.dtype_policy
        self.self_attention = sublayers.attention(
            config, dtype, "self_attention", config.attention_window
        )
        self.self_attention_residual = sublayers.residual(
            config, dtype, "self_attention_residual"
        )
        self.cross_attention = sublayers.attention(
            config, dtype, "cross_attention"
        )
        self.cross_attention_residual = sublayers.residual(
            config, dtype, "cross_attention_residual"
        )
        self.feed_forward = sublayers.feed_forward(
            config, dtype, "feed_forward"
        )
        self.feed_forward_residual = sublayers.residual(
            config, dtype, "feed_forward_residual"
        )

    def build(self, inputs_shape, memory_shape):
        """Makes the weights for inputs [B, T, D] and a memory [B, S, D]."""
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        self.cross_attention.build(inputs_shape, memory_shape)
        self.cross_attention_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs,
        memory,
        attention_mask=None,
        memory_mask=None,
        training=False,
        return_weights=False,
    ):
        """Applies the layer to whole sequences.

        Args:
            inputs: float [B, T, D].
            memory: float [B, S, D], the encoder's output.
            attention_mask: boolean, broadcastable to [B, T, T]; the caller
                sees to it that no position may attend to later ones.
            memory_mask: boolean, broadcastable to [B, T, S].
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, T, D]; with `return_weights` a triple of that, float32
            [B, H, T, T] of self-attention and [B, H, T, S] of
            cross-attention.
        """
        states = self.self_attention_residual.enter(inputs)
        states, self_weights = self.self_attention(
            states,
            attention_mask=attention_mask,
            training=training,
            return_weights=True,
        )
        states = self.self_attention_residual.leave(
            inputs, states, training=training
        )
        queries = self.cross_attention_residual.enter(states)
        attended, cross_weights = self.cross_attention(
            queries,
            memory,
            attention_mask=memory_mask,
            training=training,
            return_weights=True,
        )
        states = self.cross_attention_residual.leave(
            states, attended, training=training
        )
        outputs = self._feed_forward(states, training)
        if return_weights:
            return outputs, self_weights, cross_weights
        return outputs

    def step(self, inputs, cache, index, mask, memory_heads, memory_mask):
        """Applies the layer to the newest position of each beam.

        Args:
            inputs: float [B, K, D], one position for each of K beams.
            cache: this layer's Cache.
            index: int32 scalar, the number of the step, from 0.
            mask: boolean [B, K, steps * K], the slots a beam may attend to.
            memory_heads: `cross_attention.project_memory` of the memory.
            memory_mask: boolean, broadcastable to [B, K, S].

        Returns:
            float [B, K, D], the cache with this step in it, and the
            cross-attention weights, float32 [B, H, K, S].
        """
        states = self.self_attention_residual.enter(inputs)
        queries, keys, values = self.self_attention.project(states)
        cache = cache.write(keys, values, index)
        keys, values = cache.read(ops.shape(inputs)[1])
        states, _ = self.self_attention.attend(queries, keys, values, mask)
        states = self.self_attention_residual.leave(inputs, states)
        queries = self.cross_attention_residual.enter(states)
        attended, weights = self.cross_attention.attend(
            self.cross_attention.project_query(queries),
            *memory_heads,
            memory_mask,
        )
        states = self.cross_attention_residual.leave(states, attended)
        return self._feed_forward(states, False), cache, weights

    def _feed_forward(self, states, training):
        outputs = self.feed_forward_residual.enter(states)
        outputs = self.feed_forward(outputs, training=training)
        return self.feed_forward_residual.leave(
            states, outputs, training=training
        )
