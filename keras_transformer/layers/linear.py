"""Products with a weight matrix, and how such matrices begin."""

import keras
from keras import ops


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
    outputs = ops.matmul(rows, ops.cast(kernel, inputs.dtype))
    if bias is not None:
        outputs = outputs + ops.cast(bias, inputs.dtype)
    return ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))


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
