"""Attention: scaled dot-product and multi-head, section 3.2."""

import dataclasses
import functools
import math

import keras
import numpy as np
from keras import ops

from keras_transformer.kernels import Dropout, at_least_float32, swap_heads
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
from keras_transformer.layers.projection import Projection
from keras_transformer.layers.sequence_layer import (
    SequenceLayer,
    check_width,
    require_counts,
)

# Finite, so that a row with nothing to attend to gives equal weights and not
# NaN; large enough that exp() of it is 0 beside any real score.
# A NumPy scalar, or Keras' floatx would decide its type.
_MASKED_SCORE = np.float32(-1e9)

# Queries, keys and values begin smaller than Glorot has it, or deep post-norm
# stacks learn late (docs/measured/results.md). So it is in fairseq, and so
# it was in the authors' first code, where Glorot's rule met one matrix of all
# three.
_PROJECTION_VARIANCE = 0.5


def scaled_dot_product_attention(queries, keys, values, mask=None, drop=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (formula 1).

    The softmax runs in float32, or float64 where the inputs are.

    Args:
        queries: float [..., Q, d_k].
        keys: float [..., M, d_k].
        values: float [..., M, d_v].
        mask: boolean, broadcastable to [..., Q, M], True where a query may
            attend; None means everywhere.
        drop: dropout layer, or function, for the weights; None for none.

    Returns:
        float [..., Q, d_v] in the dtype of `values`, and the weights before
        `drop`, [..., Q, M] in the softmax's dtype: rows sum to 1 and are 0
        where masked.
    """
    scale = 1.0 / math.sqrt(queries.shape[-1])
    scores = ops.matmul(queries * scale, ops.swapaxes(keys, -1, -2))
    scores = at_least_float32(scores)
    if mask is not None:
        # Added rather than selected: the mask stays at its own, smaller shape.
        masked = ops.where(mask, np.float32(0), _MASKED_SCORE)
        scores = scores + ops.cast(masked, scores.dtype)
    if scores.shape[-1] == 1:
        # What softmax would give, without Keras' warning that it does.
        weights = ops.ones_like(scores)
    else:
        weights = ops.softmax(scores, axis=-1)
    used = weights if drop is None else drop(weights)
    return ops.matmul(ops.cast(used, values.dtype), values), weights


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(SequenceLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O (section 3.2.2).

    Letters: B batch, Q queries, M keys and values, H heads, D width of the
    query.

    Called with a query alone it is self-attention, and queries, keys and
    values come from one fused product; called with a value as well it is
    cross-attention, and keys and values come from one fused product.

    Args:
        num_heads: H.
        key_dim: d_k, width of each head's queries and keys.
        value_dim: d_v, width of each head's values; None for `key_dim`.
        dropout: probability of dropping an attention weight.
        use_bias: whether the projections have biases.
        attention_window: r of restricted self-attention (section 4): a
            position attends to the r nearest ones on either side; 0 means
            all. Time and memory then grow with r and not with Q, unless the
            scores are returned or a mask says for each query where it may
            attend.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: a value is given to a layer with a window; or a width or
            a mask does not fit, or a number is out of range.

    Example:
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> layer(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        attention_window=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.attention_window = attention_window
        require_counts(self, "num_heads", "key_dim", "value_dim")
        if attention_window:
            require_counts(self, "attention_window")
        self.weight_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="weight_dropout"
        )

    def build(self, query_shape, value_shape=None):
        """Makes the weights; those of cross-attention with `value_shape`."""
        self.require_width(query_shape)
        queries = self.num_heads * self.key_dim
        values = self.num_heads * self.value_dim
        # The bias of keys adds the same to all scores of a query, which the
        # softmax ignores. Its gradient would be rounding noise, of which Adam,
        # dividing a gradient by its own size, makes whole steps.
        if value_shape is None:
            self.query_key_value = self._projection(
                "query_key_value", [queries, queries, values], keys=1
            )
            self.query_key_value.build(query_shape)
        else:
            if self.attention_window:
                raise ValueError("A window is for self-attention only.")
            check_width(self, value_shape)
            self.query = self._projection("query", [queries])
            self.query.build(query_shape)
            self.key_value = self._projection(
                "key_value", [queries, values], keys=0
            )
            self.key_value.build(value_shape)
        self.output_projection = self._projection(
            "output_projection", [query_shape[-1]], variance=1.0
        )
        self.output_projection.build((*query_shape[:-1], values))
        self.built = True

    def _projection(
        self, name, widths, variance=_PROJECTION_VARIANCE, keys=None
    ):
        return Projection(
            widths,
            variance,
            constant_bias=keys,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def call(
        self,
        query,
        value=None,
        attention_mask=None,
        use_causal_mask=False,
        cache=None,
        cache_update_index=None,
        training=False,
        return_attention_scores=False,
        mask=None,
        query_mask=None,
        value_mask=None,
    ):
        """Attends.

        Args:
            query: float [B, Q, D].
            value: float [B, M, D_value] to attend to; None for
                self-attention, where M = Q.
            attention_mask: boolean, True where a query may attend: [B, M],
                or broadcastable to [B, Q, M] or [B, H, Q, M]; of
                self-attention an AttentionMask, too. None means everywhere.
            use_causal_mask: whether no position may attend to later ones;
                for self-attention without a cache.
            cache: of self-attention a KVCache, to which the keys and values
                of the query, one position of each of Q beams, are appended;
                M is then all of its slots. Of cross-attention what
                `project_memory` returned, in the place of `value`.
            cache_update_index: int32 scalar, the step to append at.
            training: whether attention weights are dropped out.
            return_attention_scores: also return the attention weights.
            mask: boolean [B, Q], Keras' own mask of the only input. Keras
                passes this and the next two, which join `attention_mask`.
            query_mask: the same where there are several inputs.
            value_mask: boolean [B, M], Keras' own mask of `value`.

        Returns:
            float [B, Q, D]; with `return_attention_scores` also float32
            [B, H, Q, M], as they are before dropout; with
            `cache_update_index` both and the cache with this step in it.
        """
        is_cross = hasattr(self, "key_value")
        has_memory = cache is not None and cache_update_index is None
        if is_cross != (value is not None or has_memory):
            raise ValueError(
                f"{self.name} was built for "
                f"{'cross' if is_cross else 'self'}-attention; use another "
                "layer with a value than without."
            )
        in_heads = functools.partial(
            self._split_heads, states=query, decoding=cache is not None
        )
        if is_cross:
            queries = in_heads(self.query(query, training=training))
            if cache is None:
                cache = self.project_memory(value, training)
                attention_mask = validate_mask(attention_mask, query, value)
                value_mask = validate_mask(value_mask, query, value)
            keys, values = cache
            allowed = join_masks(attention_mask, value_mask)
        else:
            fused = self.query_key_value(query, training=training)
            queries, keys, values = map(
                in_heads, self.query_key_value.split(fused)
            )
            if cache is None:
                allowed = AttentionMask.from_argument(attention_mask, query)
                allowed = allowed.with_keys(mask, query_mask)
                if use_causal_mask:
                    allowed = dataclasses.replace(allowed, causal=True)
            else:
                # Only with a window a step comes to the place of another one.
                ring = self.attention_window
                write = cache.overwrite if ring else cache.append
                cache = write(keys, values, cache_update_index)
                keys, values = cache.read(beams=ops.shape(query)[1])
                allowed = add_head_axis(attention_mask)
        if isinstance(allowed, AttentionMask):
            if self.attention_window and not return_attention_scores:
                queries, keys, values, allowed = split_into_blocks(
                    queries, keys, values, allowed, self.attention_window
                )
            else:
                allowed = allowed.materialize(
                    ops.shape(query)[1], self.attention_window
                )
        heads, scores = scaled_dot_product_attention(
            queries,
            keys,
            values,
            allowed,
            functools.partial(self.weight_dropout, training=training),
        )
        heads = join_blocks(heads, ops.shape(query)[1])
        outputs = self.output_projection(
            self._join_heads(heads, decoding=cache_update_index is not None),
            training=training,
        )
        if cache_update_index is not None:
            return outputs, scores, cache
        return (outputs, scores) if return_attention_scores else outputs

    def project_memory(self, memory, training=False):
        """Returns cross-attention's keys and values, a cache for `call`.

        Args:
            memory: float [B, M, D_value].
            training: whether a gradient will be taken.

        Returns:
            float [B, H, M, d_k] and [B, H, M, d_v].
        """
        fused = self.key_value(memory, training=training)
        return tuple(
            self._split_heads(block, memory, decoding=False)
            for block in self.key_value.split(fused)
        )

    def _split_heads(self, block, states, decoding):
        """Returns float [B, H, Q, d] of float [B, Q, H * d]."""
        batch, length = ops.shape(states)[:2]
        width = block.shape[-1] // self.num_heads
        block = ops.reshape(block, (batch, length, self.num_heads, width))
        return swap_heads(block) if decoding else _transpose(block)

    @staticmethod
    def _join_heads(heads, decoding):
        """Returns float [B, Q, H * d] of float [B, H, Q, d]."""
        heads = swap_heads(heads) if decoding else _transpose(heads)
        batch, length = ops.shape(heads)[:2]
        width = heads.shape[2] * heads.shape[3]
        return ops.reshape(heads, (batch, length, width))

    def compute_output_shape(self, query_shape, value_shape=None):
        """Returns the shape of the output."""
        del value_shape
        return tuple(query_shape)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "attention_window": self.attention_window,
        }


def _transpose(values):
    return ops.transpose(values, (0, 2, 1, 3))
