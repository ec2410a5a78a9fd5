"""Masks: where attention may look (sections 3.2.3 and 4).

Boolean, True where a query may attend to a key. Letters: B batch, Q queries, M
keys, H heads.
"""

import functools

from keras import ops

from keras_transformer.config import PAD_ID


def padding_mask(ids):
    """Returns True where an id is not padding: [B, M] to [B, 1, M]."""
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def segment_mask(query_segments, key_segments):
    """Returns where both are of one sentence pair of a packed row.

    Args:
        query_segments: int32 [B, Q].
        key_segments: int32 [B, M].

    Returns:
        boolean [B, Q, M].
    """
    return ops.equal(query_segments[:, :, None], key_segments[:, None, :])


def causal_mask(length):
    """Returns where a key is not later than its query: [1, Q, Q]."""
    positions = ops.arange(length)
    return (positions[:, None] >= positions[None, :])[None]


def window_mask(length, window):
    """Returns where a key is at most `window` positions away: [1, Q, Q]."""
    positions = ops.arange(length)
    distance = ops.abs(positions[:, None] - positions[None, :])
    return (distance <= window)[None]


def join_masks(*masks):
    """Returns where all masks that are not None are True: rank 4, or None.

    Args:
        *masks: [B, M], [B, Q, M] or [B, H, Q, M], broadcastable to one
            another; or None, which allows everything.
    """
    masks = [with_heads(mask) for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, masks) if masks else None


def with_heads(mask):
    """Brings [B, M] or [B, Q, M] to the rank of [B, H, Q, M]; None stays."""
    if mask is None or len(mask.shape) == 4:
        return mask
    if len(mask.shape) == 2:
        return mask[:, None, None, :]
    return mask[:, None]
