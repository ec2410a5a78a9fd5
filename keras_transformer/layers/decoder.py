"""The decoder and its layers: section 3.1."""

import keras
from keras import ops

from keras_transformer.layers.cache import Cache
from keras_transformer.layers.configured import ConfiguredLayer
from keras_transformer.layers.masks import SelfMask


@keras.saving.register_keras_serializable("keras_transformer")
class DecoderLayer(ConfiguredLayer):
    """Self-attention, cross-attention and feed-forward, each with a residual.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.self_attention = self.new_attention(
            "self_attention", config.attention_window
        )
        self.self_attention_residual = self.new_residual(
            "self_attention_residual"
        )
        self.cross_attention = self.new_attention("cross_attention")
        self.cross_attention_residual = self.new_residual(
            "cross_attention_residual"
        )
        self.feed_forward = self.new_feed_forward("feed_forward")
        self.feed_forward_residual = self.new_residual("feed_forward_residual")

    def build(self, inputs_shape, memory_shape):
        """Makes the weights for inputs [B, T, D] and a memory [B, S, D]."""
        self.require_width(inputs_shape, self.config.d_model)
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
            attention_mask: boolean, broadcastable to [B, T, T], or a
                SelfMask; the caller sees to it that no position may attend
                to later ones.
            memory_mask: boolean, broadcastable to [B, T, S].
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, T, D]; with `return_weights` a triple of that, float32
            [B, H, T, T] of self-attention and [B, H, T, S] of
            cross-attention.
        """
        states = self.self_attention_residual.enter(inputs)
        states, self_weights = self.attend_to_itself(
            states, attention_mask, training, return_weights
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

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        """Returns the shape of the inputs."""
        del memory_shape
        return tuple(inputs_shape)

    def step(self, inputs, cache, place, mask, memory_heads, memory_mask):
        """Applies the layer to the newest position of each beam.

        Args:
            inputs: float [B, K, D], one position for each of K beams.
            cache: this layer's Cache.
            place: int32 scalar, the cache's step that is written.
            mask: boolean [B, K, steps * K], the slots a beam may attend to.
            memory_heads: `cross_attention.project_memory` of the memory.
            memory_mask: boolean, broadcastable to [B, K, S].

        Returns:
            float [B, K, D], the cache with this step in it, and the
            cross-attention weights, float32 [B, H, K, S].
        """
        states = self.self_attention_residual.enter(inputs)
        queries, keys, values = self.self_attention.project(states)
        # Only with a window does a step come back to an earlier one's place.
        ring = self.config.attention_window
        write = cache.overwrite if ring else cache.write
        cache = write(keys, values, place)
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


@keras.saving.register_keras_serializable("keras_transformer")
class Decoder(ConfiguredLayer):
    """A stack of N decoder layers, with a final norm when pre-norm.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        dtype = self.dtype_policy
        self.layers = [
            DecoderLayer(config, dtype=dtype, name=f"layer_{number}")
            for number in range(1, config.decoder_layers + 1)
        ]
        self.final_norm = self.new_final_norm()

    def build(self, inputs_shape, memory_shape):
        """Makes the weights for inputs [B, T, D] and a memory [B, S, D]."""
        self.require_width(inputs_shape, self.config.d_model)
        for layer in self.layers:
            layer.build(inputs_shape, memory_shape)
        self.final_norm.build(inputs_shape)
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
        """Applies the stack to whole sequences.

        No position attends to later ones (section 3.2.3), whatever the mask.

        Args:
            inputs: float [B, T, D], embedded and with positions.
            memory: float [B, S, D], the encoder's output.
            attention_mask: boolean, for what else is not to be attended to:
                [B, T], or broadcastable to [B, T, T] with as many axes; or a
                SelfMask. None means nothing else.
            memory_mask: boolean, [B, S], or broadcastable to [B, T, S] with
                as many axes.
            training: whether dropout is on.
            return_weights: also return the attention weights.

        Returns:
            float [B, T, D]; with `return_weights` a triple of that, a list
            of N float32 [B, H, T, T] of self-attention and a list of N
            [B, H, T, S] of cross-attention.
        """
        causal = SelfMask.of(attention_mask, inputs).with_causality()
        attention_mask = self.mask_of_layers(causal, inputs)
        outputs, all_self, all_cross = inputs, [], []
        for layer in self.layers:
            outputs = layer(
                outputs,
                memory,
                attention_mask=attention_mask,
                memory_mask=memory_mask,
                training=training,
                return_weights=return_weights,
            )
            if return_weights:
                outputs, self_weights, cross_weights = outputs
                all_self.append(self_weights)
                all_cross.append(cross_weights)
        outputs = self.final_norm(outputs)
        if return_weights:
            return outputs, all_self, all_cross
        return outputs

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        """Returns the shape of the inputs."""
        del memory_shape
        return tuple(inputs_shape)

    def project_memory(self, memory):
        """Returns each layer's cross-attention keys and values.

        Args:
            memory: float [B, S, D].

        Returns:
            A tuple of N pairs, float [B, H, S, d_k] and [B, H, S, d_v].
        """
        return tuple(
            layer.cross_attention.project_memory(memory)
            for layer in self.layers
        )

    def empty_caches(self, batch, steps, beams, kind=Cache):
        """Returns N empty caches.

        Args:
            batch: B.
            steps: number of steps they are made for; see `cached_steps`.
            beams: K.
            kind: Cache, or a subclass of it.
        """
        config = self.config
        steps = self.cached_steps(steps)
        return tuple(
            kind.empty(
                batch,
                config.num_heads,
                steps,
                beams,
                (config.d_k, config.d_v),
                self.compute_dtype,
            )
            for _ in self.layers
        )

    def cached_steps(self, steps):
        """Returns of how many steps caches have room for a number of steps.

        With a window of r no step looks at more than r before it: the caches
        have room for r + 1, and step t is written over step t - r - 1.

        Args:
            steps: a number or int32 scalar.
        """
        window = self.config.attention_window
        if not window:
            return steps
        smaller = min if isinstance(steps, int) else ops.minimum
        return smaller(steps, window + 1)

    def step(self, inputs, layer_caches, index, mask, memory, memory_mask):
        """Applies the stack to the newest position of each beam.

        Args:
            inputs: float [B, K, D].
            layer_caches: of `empty_caches`, with the earlier steps in them.
            index: int32 scalar, the number of the step, from 0.
            mask: boolean [B, K, cached steps * K], the slots a beam may
                attend to, this step's own among them.
            memory: of `project_memory`.
            memory_mask: boolean, broadcastable to [B, K, S].

        Returns:
            float [B, K, D], the caches, and a list of N float32
            [B, H, K, S] cross-attention weights.
        """
        place = index % ops.shape(layer_caches[0].keys)[2]
        outputs, new_caches, all_weights = inputs, [], []
        for layer, cache, heads in zip(self.layers, layer_caches, memory):
            outputs, cache, weights = layer.step(
                outputs, cache, place, mask, heads, memory_mask
            )
            new_caches.append(cache)
            all_weights.append(weights)
        return self.final_norm(outputs), tuple(new_caches), all_weights
