"""Products with a weight matrix, and how such matrices begin."""

import keras
from keras import ops

from keras_transformer.kernels.gradients import is_uncompiled, own_gradient


def linear(inputs, kernel, bias=None):
    """Returns inputs @ kernel + bias.

    All leading dimensions are folded into one, so that every backend runs a
    single matrix product instead of one per batch row.

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


def column_sums(rows):
    """Returns the sums over rows, float [m] of float [n, m].

    A product with ones: TensorFlow's own sum over rows takes four times as
    long on a CPU.
    """
    ones = ops.ones((1, ops.shape(rows)[0]), rows.dtype)
    return ops.matmul(ones, rows)[0]


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

    oneDNN makes a wide product a tenth sooner than a tall one.
    """
    if left.shape[1] <= right.shape[1]:
        return ops.matmul(ops.transpose(left), right)
    return ops.transpose(ops.matmul(ops.transpose(right), left))


def _transposed(kernel):
    """Returns the transpose [m, n] of [n, m], as an array of its own if wide.

    A product with the transpose of a wide matrix reads that in long strides:
    oneDNN takes a fifth to a third more time for it than for a copy, and
    making the copy takes next to none. The axis more is so that TensorFlow
    does not see through it and drop the copy.
    """
    if kernel.shape[1] < kernel.shape[0]:
        return ops.transpose(kernel)
    return ops.transpose(kernel[None], (0, 2, 1))[0]


def glorot_blocks(widths, variance):
    """Returns an initializer for a matrix made of blocks side by side.

    Each block begins as Glorot-uniform on its own, so that fusing several
    projections into one matrix does not change how they begin.

    Args:
        widths: number of columns of each block.
        variance: factor on Glorot's variance.
    """

    def initialize(shape, dtype=None):
        blocks = [
            keras.initializers.VarianceScaling(variance, "fan_avg", "uniform")(
                (shape[0], width), dtype=dtype
            )
            for width in widths
        ]
        return ops.concatenate(blocks, axis=1)

    return initialize
