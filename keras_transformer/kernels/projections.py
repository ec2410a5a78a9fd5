"""Products with a weight matrix, and into heads and back (section 3.2.2).

Letters: B batch, Q positions, H heads, d width of a head.
"""

import keras
from keras import ops

from keras_transformer.kernels.gradients import is_uncompiled, own_gradient


def linear(inputs, kernel, bias=None):
    """Returns inputs @ kernel + bias.

    Why: with all leading dimensions folded into one, every backend runs a
    single matrix product instead of one per batch row; and in the scope of
    `uncompiled` the gradient is written by hand. Gain: 4 to 5 % of a training
    step. Without it: `ops.matmul(inputs, kernel) + bias`.

    Args:
        inputs: float [..., n].
        kernel: float [n, m].
        bias: float [m], or None.

    Returns:
        float [..., m] in the dtype of `inputs`.
    """
    shape = ops.shape(inputs)
    rows = ops.reshape(inputs, (-1, kernel.shape[0]))
    weights = [
        ops.cast(each, inputs.dtype)
        for each in (kernel, bias)
        if each is not None
    ]
    multiply = _affine_with_gradient if is_uncompiled() else _affine
    outputs = multiply(rows, *weights)
    return ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))


def at_least_float32(values):
    """Casts to float32; float64, of a policy that asks for it, stays."""
    dtype = keras.backend.result_type(values.dtype, "float32")
    return ops.cast(values, dtype)


def column_sums(rows):
    """Returns the sums over rows, float [m] of float [n, m].

    Why: it is a product with ones; TensorFlow's own sum over rows takes four
    to five times as long on a CPU. Gain: 2 % of a training step. Without it:
    `ops.sum(rows, axis=0)`.
    """
    ones = ops.ones((1, ops.shape(rows)[0]), rows.dtype)
    return ops.squeeze(ops.matmul(ones, rows), axis=0)


def _affine(rows, kernel, *bias):
    return sum(bias, ops.matmul(rows, kernel))


@own_gradient
def _affine_with_gradient(rows, kernel, *bias):
    def gradient(upstream):
        return (
            ops.matmul(upstream, _transposed(kernel)),
            _product_over_rows(rows, upstream),
            *[column_sums(upstream) for _ in bias],
        )

    return _affine(rows, kernel, *bias), gradient


def _product_over_rows(left, right):
    """Returns left^T @ right, [n, m] of [r, n] and [r, m].

    Why: oneDNN makes a wide product a tenth faster than a tall one. Gain:
    0.4 %. Without it: the first line.
    """
    if left.shape[1] <= right.shape[1]:
        return ops.matmul(ops.transpose(left), right)
    return ops.transpose(ops.matmul(ops.transpose(right), left))


def _transposed(kernel):
    """Returns the transpose [m, n] of [n, m], as an array of its own if wide.

    Why: a product with the transpose of a wide matrix reads it in long
    strides, and oneDNN takes a fifth to a third more time than with a copy.
    The extra axis keeps TensorFlow from folding the transpose into the
    product, which would drop the copy. Gain: 2.5 to 3.6 %. Without it:
    `ops.transpose(kernel)`.
    """
    if kernel.shape[1] < kernel.shape[0]:
        return ops.transpose(kernel)
    copy = ops.transpose(ops.expand_dims(kernel, 0), (0, 2, 1))
    return ops.squeeze(copy, axis=0)


_SAME_SIZE = {
    "float16": "int16",
    "bfloat16": "int16",
    "float32": "int32",
    "float64": "int64",
}


def split_heads(block, num_heads, inputs=None):
    """Returns float [B, H, Q, d] of float [B, Q, H * d].

    With `inputs`, whatever has the same B and Q, these are read from there:
    tf2onnx takes the shape of a block that was just reshaped for another's.
    """
    return _swap(_apart(block, num_heads, inputs))


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


def _apart(block, num_heads, inputs=None):
    batch, length = ops.shape(block if inputs is None else inputs)[:2]
    width = block.shape[-1] // num_heads
    return ops.reshape(block, (batch, length, num_heads, width))


def _together(values):
    batch, length = ops.shape(values)[:2]
    width = values.shape[2] * values.shape[3]
    return ops.reshape(values, (batch, length, width))
