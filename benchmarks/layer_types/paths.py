"""Counts the sequential operations and path lengths of Table 1."""

import math
import typing

import numpy as np
import tensorflow as tf

from benchmarks.layer_types.layers import (
    CONV,
    GRU,
    KERNEL,
    LSTM,
    SEPARABLE,
    self_attention,
)

# Types of TensorFlow operations that multiply matrices start with these.
_PRODUCTS = ("BatchMatMul", "Conv2D", "DepthwiseConv2d", "Einsum", "MatMul")
_WIDTH = 4
_SEED = 1
# r of the stacks: with the timed layers' r, one layer would be enough.
SHORT_WINDOW = 8


def sequential_products(layer, length):
    """Returns the longest chain of products in the layer's graph."""
    spec = tf.TensorSpec((1, length, _WIDTH), layer.dtype)
    call = tf.function(layer).get_concrete_function(spec)
    before = {}
    # Operations are in topological order.
    for operation in call.graph.get_operations():
        longest = max(
            (before[tensor.op.name] for tensor in operation.inputs), default=0
        )
        before[operation.name] = longest + operation.type.startswith(_PRODUCTS)
    return max(before.values())


def path_length(stack, length, causal=False):
    """Returns how many top layers connect all positions, or None.

    Computes the gradient of each output in float64: where it is not 0, the
    output depends on the input. With `causal`, it need not depend on later
    inputs.
    """
    generator = np.random.default_rng(_SEED)
    states = [tf.constant(generator.normal(size=(1, length, _WIDTH)))]
    for layer in stack[:-1]:
        states.append(layer(states[-1]))
    # Row i has the gradient of output i.
    start = generator.normal(size=(length, 1, _WIDTH))
    signal = tf.constant(np.eye(length)[:, :, None] * start)
    wanted = np.ones((length, length), bool)
    if causal:
        wanted = np.tril(wanted)
    for number, layer in enumerate(reversed(stack), 1):
        signal = _sent_down(layer, states[-number], signal)
        reached = np.any(signal.numpy() != 0, axis=-1)
        if reached[wanted].all():
            return number
    return None


def _sent_down(layer, states, signal):
    states = tf.repeat(states, len(signal), axis=0)
    with tf.GradientTape() as tape:
        tape.watch(states)
        outputs = layer(states)
    signal = tape.gradient(outputs, states, output_gradients=signal)
    # Rescaled, because it would underflow in deep stacks.
    return signal / tf.reduce_max(tf.abs(signal), axis=(1, 2), keepdims=True)


class Counts(typing.NamedTuple):
    """Counts of one layer type, and the number of layers by a formula.

    `operations` is the number of sequential products in one layer, `layers` the
    least number of layers that connect all positions. With `causal`, outputs
    depend only on the same and earlier positions.
    """

    title: str
    formula: str
    expected: int
    causal: bool
    operations: int
    layers: int | None


def count_layer_types(length):
    """Returns the Counts of all layer types at a length of at least 2.

    Each layer of centered convolutions reaches (k - 1) / 2 positions farther,
    of causal ones k - 1. In a dilated stack, each layer has k times the
    dilation of the layer above it. That stack is causal, because centered
    convolutions would reach beyond the ends of the sequence.
    """
    away = length - 1
    # A rounded logarithm could exceed a whole number.
    dilated = next(each for each in range(length) if KERNEL**each >= length)
    conv = f"convolution, k = {KERNEL}"
    around = "2(n-1)/(k-1)", math.ceil(2 * away / (KERNEL - 1))
    causal_path = "(n-1)/(k-1)", math.ceil(away / (KERNEL - 1))
    restricted = "(n-1)/r", math.ceil(away / SHORT_WINDOW)
    unroll, causal = {"unroll": True}, {"padding": "causal"}
    window = {"window": SHORT_WINDOW}
    rows = [
        ("self-attention", "1", 1, False, self_attention, {}),
        ("recurrent, GRU", "1", 1, True, GRU, unroll),
        ("recurrent, LSTM", "1", 1, True, LSTM, unroll),
        (conv, *around, False, CONV, {}),
        (f"{conv}, causal", *causal_path, True, CONV, causal),
        (f"separable, k = {KERNEL}", *around, False, SEPARABLE, {}),
        (
            *(f"restricted, r = {SHORT_WINDOW}", *restricted, False),
            *(self_attention, window),
        ),
        (
            *(f"{conv}, causal, dilated", "log_k(n)", dilated, True),
            *(CONV, causal),
        ),
    ]
    counts = []
    for *row, make, arguments in rows:
        _, formula, expected, is_causal = row
        stack = []
        # Bottom to top; the top layer has dilation 1.
        for number in reversed(range(expected + 1)):
            more = {}
            if formula == "log_k(n)":
                more = {"dilation_rate": KERNEL**number}
            stack.append(make(_WIDTH, dtype="float64", **arguments, **more))
        operations = sequential_products(stack[-1], length)
        layers = path_length(stack, length, is_causal)
        counts.append(Counts(*row, operations, layers))
    return counts
