"""Into heads and back: "Concat(head_1, ..., head_H)" of section 3.2.2.

Letters: B batch, Q positions, H heads, d width of a head.
"""

import keras
from keras import ops

_SAME_SIZE = {
    "float16": "int16",
    "bfloat16": "int16",
    "float32": "int32",
    "float64": "int64",
}


def split_heads(block, num_heads):
    """Returns float [B, H, Q, d] of float [B, Q, H * d]."""
    return _swap(_apart(block, num_heads))


def join_heads(heads):
    """Returns float [B, Q, H * d] of float [B, H, Q, d]."""
    return _together(_swap(heads))


def split_few(block, num_heads):
    """As `split_heads`, faster for few positions; has no gradient.

    Why: for floats TensorFlow's transpose calls oneDNN, which takes 0.1 ms on
    a CPU however few there are; its own kernel for integers takes 0.01 ms.
    Gain: 3 to 4 ms of a decoding step of the base size, which has forty of
    these. Without it: `split_heads`.
    """
    return _swap_bits(_apart(block, num_heads))


def join_few(heads):
    """As `join_heads`, as fast as `split_few`; has no gradient."""
    return _together(_swap_bits(heads))


def _swap(values):
    """Transposes axes 1 and 2 of four."""
    return ops.transpose(values, (0, 2, 1, 3))


def _swap_bits(values):
    """Does the same with floating-point numbers taken as integers."""
    dtype = keras.backend.standardize_dtype(values.dtype)
    bits = ops.view(values, _SAME_SIZE[dtype])
    return ops.view(_swap(bits), dtype)


def _apart(block, num_heads):
    batch, length = ops.shape(block)[:2]
    width = block.shape[-1] // num_heads
    return ops.reshape(block, (batch, length, num_heads, width))


def _together(values):
    batch, length = ops.shape(values)[:2]
    width = values.shape[2] * values.shape[3]
    return ops.reshape(values, (batch, length, width))
