"""Scaled dot-product attention: section 3.2.1."""

import math

import numpy as np
from keras import ops

from keras_transformer.kernels.projections import at_least_float32

# Finite, so that a row with nothing to attend to gives equal weights and not
# NaN; large enough that exp() of it is 0 beside any real score.
# A NumPy scalar, or Keras' floatx would decide its type.
_MASKED_SCORE = np.float32(-1e9)


def scaled_dot_product_attention(queries, keys, values, mask=None, drop=None):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (formula 1).

    The softmax runs in float32, or float64 where the inputs are.

    Args:
        queries: float [..., Q, d_k].
        keys: float [..., M, d_k].
        values: float [..., M, d_v].
        mask: boolean, broadcastable to [..., Q, M], True where a query may
            attend; None means everywhere.
        drop: function of the weights that returns those to use, such as a
            dropout layer; None for all of them.

    Returns:
        float [..., Q, d_v] in the dtype of `values`, and the weights before
        `drop`, [..., Q, M] in the softmax's dtype: rows sum to 1 and are 0
        where masked.
    """
    weights = _softmax(_scores(queries, keys), mask)
    used = weights if drop is None else drop(weights)
    return ops.matmul(ops.cast(used, values.dtype), values), weights


def _scores(queries, keys):
    scale = 1.0 / math.sqrt(queries.shape[-1])
    scores = ops.matmul(queries * scale, ops.swapaxes(keys, -1, -2))
    return at_least_float32(scores)


def _softmax(scores, mask):
    if mask is not None:
        # Added rather than selected: the mask stays at its own, smaller shape.
        masked = ops.where(mask, np.float32(0), _MASKED_SCORE)
        scores = scores + ops.cast(masked, scores.dtype)
    if scores.shape[-1] == 1:
        # What softmax would give, without Keras' warning that it does.
        return ops.ones_like(scores)
    return ops.softmax(scores, axis=-1)
