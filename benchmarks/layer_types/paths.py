"""Sequential operations and path lengths of Table 1, counted on real layers."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from benchmarks.layer_types.layers import (
    KERNEL,
    convolution,
    gru,
    lstm,
    self_attention,
    separable,
)

_PRODUCTS = {
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Conv2D",
    "DepthwiseConv2dNative",
    "Einsum",
    "MatMul",
}
# Signals are followed and chains counted through layers so narrow.
_WIDTH = 4
_SEED = 1
# r of the stacks that are counted: with that of the layers that are timed,
# few lengths would need more than a layer.
SHORT_WINDOW = 8


def sequential_products(layer, length):
    """Returns how many products must follow one another.

    That is the longest chain of them in the layer's graph.

    Args:
        layer: a Keras layer; a recurrent one with `unroll`.
        length: n.
    """
    graph = (
        tf.function(layer)
        .get_concrete_function(tf.TensorSpec((1, length, _WIDTH), layer.dtype))
        .graph
    )
    before = {}
    # Operations are listed after those that they take their inputs from.
    for operation in graph.get_operations():
        longest = max(
            (before[tensor.op.name] for tensor in operation.inputs), default=0
        )
        before[operation.name] = longest + (operation.type in _PRODUCTS)
    return max(before.values())


def path_length(stack, length, causal=False):
    """Returns how many of the upper layers connect all positions.

    A signal is sent from each output down the stack, as its gradient in
    float64: where that is not 0, the output changes with the input. What is
    0 stays so exactly.

    Args:
        stack: layers from the lowest to the highest, of dtype float64.
        length: n.
        causal: whether outputs need not depend on later inputs.

    Returns:
        The least number of layers of which every output depends on every
        input; None where the whole stack is not enough.
    """
    generator = np.random.default_rng(_SEED)
    states = [tf.constant(generator.normal(size=(1, length, _WIDTH)))]
    for layer in stack[:-1]:
        states.append(layer(states[-1]))
    # In copy i the signal starts at output i.
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
    # Through many layers it would become too small for a number.
    return signal / tf.reduce_max(tf.abs(signal), axis=(1, 2), keepdims=True)


@dataclasses.dataclass(frozen=True)
class Counted:
    """What was counted of one layer type, and what a formula says.

    Attributes:
        title: of the type.
        operations: products of one layer that must follow one another.
        layers: on the longest path: the least that connect all positions.
        causal: whether outputs look at their own position and those before.
        formula: of the layers.
        expected: layers by the formula.
    """

    title: str
    operations: int
    layers: int | None
    causal: bool
    formula: str
    expected: int


def count_layer_types(length):
    """Counts operations and layers of all layer types.

    A convolution around each position reaches (k - 1) / 2 positions farther
    with each layer, a causal one k - 1; in a dilated stack each layer looks k
    times as far as the one above it. That one is causal: around a position,
    signals would leave the sequence at its ends.

    Args:
        length: n, 2 at least.

    Returns:
        List of Counted.
    """
    away = length - 1
    unrolled, causal = {"unroll": True}, {"padding": "causal"}
    window = {"window": SHORT_WINDOW}
    of_window = math.ceil(away / SHORT_WINDOW)
    around = math.ceil(2 * away / (KERNEL - 1))
    back = math.ceil(away / (KERNEL - 1))
    # Not by a logarithm, which rounding can raise above a whole number.
    dilated = next(each for each in range(length) if KERNEL**each >= length)
    convolutional = f"convolution, k = {KERNEL}"
    plain = [
        ("self-attention", self_attention, {}, False, "1", 1),
        ("recurrent, GRU", gru, unrolled, True, "1", 1),
        ("recurrent, LSTM", lstm, unrolled, True, "1", 1),
        (convolutional, convolution, {}, False, "2(n-1)/(k-1)", around),
        (
            f"{convolutional}, causal",
            convolution,
            causal,
            True,
            "(n-1)/(k-1)",
            back,
        ),
        (
            f"separable, k = {KERNEL}",
            separable,
            {},
            False,
            "2(n-1)/(k-1)",
            around,
        ),
        (
            f"restricted, r = {SHORT_WINDOW}",
            self_attention,
            window,
            False,
            "(n-1)/r",
            of_window,
        ),
    ]
    found = []
    for title, make, arguments, is_causal, formula, expected in plain:
        stack = [
            make(_WIDTH, dtype="float64", **arguments)
            for _ in range(expected + 1)
        ]
        found.append(
            _counted(title, stack, length, is_causal, formula, expected)
        )
    # The lowest first, and the highest looks at its neighbours.
    stack = [
        convolution(
            _WIDTH, dtype="float64", dilation_rate=KERNEL**number, **causal
        )
        for number in reversed(range(dilated + 1))
    ]
    title = f"{convolutional}, causal, dilated"
    found.append(_counted(title, stack, length, True, "log_k(n)", dilated))
    return found


def _counted(title, stack, length, causal, formula, expected):
    operations = sequential_products(stack[-1], length)
    layers = path_length(stack, length, causal)
    return Counted(title, operations, layers, causal, formula, expected)
