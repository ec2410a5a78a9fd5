"""Scaled dot-product and multi-head attention: section 3.2."""

import dataclasses
import functools
import math
import typing
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from keras_transformer.ids import arange
from keras_transformer.kernels import Dropout, at_least_float32, swap_heads
from keras_transformer.layers.base import (
    Projection,
    SequenceLayer,
    validate_counts,
)
from keras_transformer.layers.local_attention import (
    join_blocks,
    split_into_blocks,
)
from keras_transformer.layers.masks import (
    AttentionMask,
    add_head_axis,
    join_masks,
    validate_mask,
)
from keras_transformer.types import Shape, Tensor, TensorLike

# Finite, so that a fully masked row has equal weights instead of NaN; large
# enough that its exponential is 0 next to any real score. A NumPy scalar, since
# Keras' floatx would set the dtype of a float.
_MASKED_SCORE = np.float32(-1e9)

# Queries, keys and values use half of Glorot's variance, as in fairseq and the
# authors' first code; with the full variance deep post-norm stacks learn late
# (docs/measured/results.md).
_VARIANCE = 0.5


def scaled_dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (formula 1).

    Takes float [..., Q, d_k], [..., M, d_k] and [..., M, d_v]; a boolean mask,
    broadcastable to [..., Q, M], True where a query may attend; and `drop`, a
    dropout layer for the weights. The softmax runs in float32, or float64
    for float64 inputs.

    Returns float [..., Q, d_v] in the dtype of `values`, and the weights before
    dropout, [..., Q, M]: rows sum to 1 and are 0 where masked.
    """
    scale = 1.0 / math.sqrt(queries.shape[-1])
    scores = ops.matmul(queries * scale, ops.swapaxes(keys, -1, -2))
    scores = at_least_float32(scores)
    if mask is not None:
        # Adding keeps the mask at its own, smaller shape.
        masked = ops.where(mask, np.float32(0), _MASKED_SCORE)
        scores = scores + ops.cast(masked, scores.dtype)
    if scores.shape[-1] == 1:
        # Keras warns about the softmax of one score.
        weights = ops.ones_like(scores)
    else:
        weights = ops.softmax(scores, axis=-1)
    used = weights if drop is None else drop(weights)
    return ops.matmul(ops.cast(used, values.dtype), values), weights


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(SequenceLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O (section 3.2.2).

    Called with only a query, the layer is self-attention: one product computes
    queries, keys and values. With a value it is cross-attention: one product
    computes keys and values. Letters: B batch, Q queries, M keys and values, H
    heads, D width of the query.

    Args:
        num_heads: H.
        key_dim: d_k, query and key width per head.
        value_dim: d_v, value width per head; None for `key_dim`.
        dropout: of attention weights, `attention_dropout` of a Transformer.
        use_bias: whether the projections have biases.
        attention_window: r of restricted self-attention (section 4): a position
            attends to the r nearest ones on either side; 0 for all. Time and
            memory grow with r instead of Q, unless the scores are returned or
            the mask differs between queries. Cross-attention takes no window.

    Examples:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> layer(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    config_names = (
        *("num_heads", "key_dim", "value_dim", "dropout"),
        *("use_bias", "attention_window"),
    )

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        attention_window: int = 0,
        **kwargs: typing.Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.attention_window = attention_window
        validate_counts(self, "num_heads", "key_dim", "value_dim")
        if attention_window:
            validate_counts(self, "attention_window")
        self.attention_weight_dropout: keras.layers.Layer = Dropout(
            dropout, dtype=self.dtype_policy, name="attention_weight_dropout"
        )

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None
    ) -> None:
        """Creates the weights, for cross-attention if given a value's shape."""
        self.require_width(query_shape)
        self.is_cross_attention = value_shape is not None
        qk_width = self.num_heads * self.key_dim
        v_width = self.num_heads * self.value_dim
        # A bias of keys adds the same to all scores of a query, which the
        # softmax ignores. Its gradient is rounding noise, which Adam would
        # scale up to full steps.
        if self.is_cross_attention:
            if self.attention_window:
                raise ValueError("A window is for self-attention only.")
            self.query = self._projection("query", [qk_width])
            self.query.build(query_shape)
            self.key_value = self._projection(
                "key_value", [qk_width, v_width], frozen_bias=0
            )
            self.key_value.build(value_shape)
        else:
            self.query_key_value = self._projection(
                "query_key_value", [qk_width, qk_width, v_width], frozen_bias=1
            )
            self.query_key_value.build(query_shape)
        self.output_projection = self._projection(
            "output_projection", [query_shape[-1]], variance=1.0
        )
        self.output_projection.build((*query_shape[:-1], v_width))
        self.built = True

    def _projection(self, name, widths, variance=_VARIANCE, frozen_bias=None):
        return Projection(
            widths,
            variance,
            frozen_bias,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        attention_mask: AttentionMask | TensorLike | None = None,
        use_causal_mask: bool = False,
        cache: "KVCache | tuple[Tensor, ...] | None" = None,
        cache_update_index: Tensor | None = None,
        training: bool = False,
        return_attention_scores: bool = False,
        mask: TensorLike | None = None,
        query_mask: TensorLike | None = None,
        value_mask: TensorLike | None = None,
    ) -> Tensor | tuple:
        """Attends to the query itself, or to `value`.

        Args:
            query: float [B, Q, D].
            value: float [B, M, D_value]; None for self-attention, M = Q.
            attention_mask: boolean, True where a query may attend: [B, M], or
                broadcastable to [B, Q, M] or [B, H, Q, M]; for self-attention
                also an AttentionMask. None for everywhere.
            use_causal_mask: whether no position may attend to later ones; for
                self-attention only.
            cache: for self-attention a KVCache, to which the keys and values of
                the query, one position of each of Q beams, are written; M is
                then the number of its slots. For cross-attention the output of
                `project_memory`, instead of `value`.
            cache_update_index: int32 scalar, the step to write.
            training: whether attention weights are dropped out, and gradients
                are needed.
            return_attention_scores: also return the attention weights.
            mask: boolean [B, Q]; this and the next two are Keras' implicit
                masks, which are joined with `attention_mask`.
            query_mask: boolean [B, Q].
            value_mask: boolean [B, M].

        Returns:
            float [B, Q, D]; with `return_attention_scores` also float32
            [B, H, Q, M], before dropout; with `cache_update_index` both and the
            updated cache.
        """
        decoding = cache_update_index is not None
        has_value = value is not None or (cache is not None and not decoding)
        if has_value != self.is_cross_attention:
            kind = "cross" if self.is_cross_attention else "self"
            raise ValueError(
                f"{self.name} was built for {kind}-attention; pass a value in "
                "all calls, or in none."
            )
        length = ops.shape(query)[1]
        differentiable = cache is None
        if self.is_cross_attention:
            if use_causal_mask:
                raise ValueError("A causal mask is for self-attention only.")
            queries = self.query(query, training=training)
            queries = self._split_heads(queries, query, differentiable)
            if cache is None:
                cache = self.project_memory(value, training)
                attention_mask = validate_mask(attention_mask, query, value)
                value_mask = validate_mask(value_mask, query, value)
            keys, values = cache
            allowed = join_masks(attention_mask, value_mask)
        else:
            fused = self.query_key_value(query, training=training)
            queries, keys, values = (
                self._split_heads(block, query, differentiable)
                for block in self.query_key_value.split(fused)
            )
            if decoding:
                # Only with a window can a step replace an earlier one.
                overwrite = bool(self.attention_window)
                cache = cache.update(  # type: ignore[union-attr]
                    keys, values, cache_update_index, overwrite
                )
                keys, values = cache.read(beams=length)
                allowed = add_head_axis(attention_mask)
            else:
                allowed = AttentionMask.standardize(attention_mask, query)
                allowed = allowed.with_keys(mask, query_mask)
                if use_causal_mask:
                    allowed = dataclasses.replace(allowed, causal=True)
                window = self.attention_window
                if window and not return_attention_scores:
                    queries, keys, values, allowed = split_into_blocks(
                        queries, keys, values, allowed, window
                    )
                else:
                    allowed = allowed.materialize(length, window)
        heads, scores = scaled_dot_product_attention(
            queries,
            keys,
            values,
            allowed,
            functools.partial(self.attention_weight_dropout, training=training),
        )
        heads = join_blocks(heads, length)
        heads = _combine_heads(heads, differentiable)
        outputs = self.output_projection(heads, training=training)
        if decoding:
            return outputs, scores, cache
        return (outputs, scores) if return_attention_scores else outputs

    def project_memory(
        self, memory: Tensor, training: bool = False
    ) -> tuple[Tensor, ...]:
        """Returns cross-attention's cache: keys and values [B, H, M, d]."""
        fused = self.key_value(memory, training=training)
        return tuple(
            self._split_heads(block, memory)
            for block in self.key_value.split(fused)
        )

    def _split_heads(self, block, states, differentiable=True):
        """Maps float [B, Q, H * d], computed from `states`, to [B, H, Q, d]."""
        batch, length = ops.shape(states)[:2]
        width = block.shape[-1] // self.num_heads
        block = ops.reshape(block, (batch, length, self.num_heads, width))
        return swap_heads(block, differentiable)


def _combine_heads(heads, differentiable):
    """Maps float [B, H, Q, d] to float [B, Q, H * d]."""
    heads = swap_heads(heads, differentiable)
    batch, length = ops.shape(heads)[:2]
    width = heads.shape[2] * heads.shape[3]
    return ops.reshape(heads, (batch, length, width))


class KVCache(typing.NamedTuple):
    """Keys and values of one self-attention layer, for all or recent steps.

    Slot K t + k is for step t of beam k. Slots are never reordered: a mask
    selects the slots of a beam's own past (see `BeamDecoder`).

    Attributes:
        keys: float [B, H, steps, K * d_k].
        values: float [B, H, steps, K * d_v].
    """

    keys: Tensor
    values: Tensor

    @staticmethod
    def scatter_update(
        cache: Tensor, indices: Tensor, rows: Tensor, overwrite: bool
    ) -> Tensor:
        """Writes rows [N, width] to a cache [N, steps, width].

        See `keras.ops.scatter_update`; `indices` are int32 [N, 2]. Unless
        `overwrite`, the cache is 0 there, so that a subclass may add.
        """
        return ops.scatter_update(cache, indices, rows)

    def update(
        self, keys: Tensor, values: Tensor, index: Tensor, overwrite: bool
    ) -> typing.Self:
        """Writes [B, H, K, d] at step `index`; see `scatter_update`."""
        batch, num_heads, steps, _ = ops.shape(self.keys)
        count = batch * num_heads
        indices = ops.stack(
            [arange(count), ops.broadcast_to(index, (count,))], axis=1
        )

        def write(cache, heads):
            width = ops.shape(cache)[-1]
            cache = self.scatter_update(
                ops.reshape(cache, (count, steps, width)),
                indices,
                ops.reshape(heads, (count, width)),
                overwrite,
            )
            return ops.reshape(cache, (batch, num_heads, steps, width))

        return type(self)(write(self.keys, keys), write(self.values, values))

    def read(self, beams: int) -> tuple[Tensor, Tensor]:
        """Returns keys and values of all slots: float [B, H, steps * K, d]."""

        def split_beams(cache):
            batch, num_heads, steps, width = ops.shape(cache)
            shape = batch, num_heads, steps * beams, width // beams
            return ops.reshape(cache, shape)

        return split_beams(self.keys), split_beams(self.values)
