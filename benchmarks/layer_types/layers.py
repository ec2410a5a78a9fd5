"""The layer types of Table 1, and what the paper and a count say of each."""

import dataclasses
import functools
import typing

import keras
import tensorflow as tf

import keras_transformer as kt
from benchmarks.harness.systems import System
from keras_transformer.kernels.gradients import uncompiled

# k of a convolution, and d_k as base and big have it.
KERNEL = 3
_HEAD = 64
# As many float32 [H, n, n] full attention holds at once, as it was measured;
# softmax writes over its input.
_SCORES_FORWARD, _SCORES_BOTH = 1.2, 3.6
_SEED = 1


def self_attention(width, window=0, **arguments):
    """Returns a MultiHeadAttention with heads of 64, as base and big have."""
    heads = max(1, width // _HEAD)
    part = width // heads
    return kt.MultiHeadAttention(
        width, heads, part, part, window=window, **arguments
    )


def gru(width, **arguments):
    """Returns a recurrent layer that gives a state for every position."""
    return keras.layers.GRU(width, return_sequences=True, **arguments)


def lstm(width, **arguments):
    """Returns the same with long short-term memory."""
    return keras.layers.LSTM(width, return_sequences=True, **arguments)


def convolution(width, padding="same", **arguments):
    """Returns a convolution over a position and its two neighbours."""
    return keras.layers.Conv1D(width, KERNEL, padding=padding, **arguments)


def separable(width, **arguments):
    """Returns the same, each column by itself and then a product."""
    return keras.layers.SeparableConv1D(
        width, KERNEL, padding="same", **arguments
    )


def _attention_flops(length, width, window=None):
    seen = length if window is None else min(length, 2 * window + 1)
    return 8 * length * width**2 + 4 * length * seen * width


def _recurrent_flops(length, width, gates):
    return 4 * gates * length * width**2


def _convolution_flops(length, width):
    return 2 * KERNEL * length * width**2


def _separable_flops(length, width):
    return 2 * length * width * (KERNEL + width)


@dataclasses.dataclass(frozen=True)
class LayerType(System):
    """A System of LayerJobs, and a row of Table 1.

    Attributes:
        title: as figures and tables name it.
        layer: function of a width; returns a Keras layer from float [B, n, d]
            to the same.
        flops: function of n and d; returns the FLOPs of a forward pass that
            products and convolutions make, those of projections too.
        complexity: per layer, as Table 1 has it.
        operations: that must follow one another, as Table 1 has it.
        path: the longest one, as Table 1 has it.
        square: whether time and memory grow with the square of n.
    """

    maker: str = ""
    keras_backend: str | None = "tensorflow"
    title: str = ""
    layer: typing.Callable | None = None
    flops: typing.Callable | None = None
    complexity: str = ""
    operations: str = "O(1)"
    path: str = ""
    square: bool = False

    def make(self, job):
        """Returns the LayerWork."""
        del job
        return LayerWork(self.layer)

    def score_bytes(self, length, width, both):
        """Returns what scores, weights and their gradients take, [H, n, n].

        Nothing else grows so fast; layers without them take nothing here.
        """
        if not self.square:
            return 0
        tensors = _SCORES_BOTH if both else _SCORES_FORWARD
        return int(4 * tensors * max(1, width // _HEAD) * length**2)


def _restricted(window):
    return LayerType(
        title=f"restricted, r = {window}",
        layer=functools.partial(self_attention, window=window),
        flops=functools.partial(_attention_flops, window=window),
        complexity="O(r·n·d)",
        path="O(n/r)",
    )


def _recurrent(title, layer, gates):
    return LayerType(
        title=title,
        layer=layer,
        flops=functools.partial(_recurrent_flops, gates=gates),
        complexity="O(n·d²)",
        operations="O(n)",
        path="O(n)",
    )


FULL = "full"
TYPES = {
    "tensorflow": {
        FULL: LayerType(
            title="self-attention",
            layer=self_attention,
            flops=_attention_flops,
            complexity="O(n²·d)",
            path="O(1)",
            square=True,
        ),
        "gru": _recurrent("recurrent, GRU", gru, gates=3),
        "lstm": _recurrent("recurrent, LSTM", lstm, gates=4),
        "conv": LayerType(
            title=f"convolution, k = {KERNEL}",
            layer=convolution,
            flops=_convolution_flops,
            complexity="O(k·n·d²)",
            path="O(n/k); dilated O(log_k(n))",
        ),
        "separable": LayerType(
            title=f"separable, k = {KERNEL}",
            layer=separable,
            flops=_separable_flops,
            complexity="O(k·n·d + n·d²)",
            path="O(n/k); dilated O(log_k(n))",
        ),
        "restricted-64": _restricted(64),
        "restricted-256": _restricted(256),
    }
}


class LayerWork:
    """Calls a layer with one sequence, in a plain TensorFlow graph.

    Args:
        make_layer: function of a width; returns the layer.
    """

    def __init__(self, make_layer):
        keras.utils.set_random_seed(_SEED)
        self.note = f"Keras {keras.__version__}, TensorFlow {tf.__version__}"
        self._make_layer = make_layer
        self._size = self._function = None

    def prepare(self, size):
        """Makes weights, input and graph for a LayerSize."""
        # The one before goes first, and its weights with it.
        self._size = self._function = None
        self._function = _function(self._make_layer(size.width), size)
        self._size = size

    def run(self, size):
        """Goes through the layer once, and back where that is wanted.

        Args:
            size: LayerSize; it is prepared if it was not the one before.
        """
        if size != self._size:
            self.prepare(size)
        self._function()


def _function(layer, size):
    """Returns a function of nothing: the pass through the layer.

    Backward, that is to the inputs and to all weights.
    """
    inputs = tf.random.stateless_normal((1, size.length, size.width), (1, 2))
    layer.build(inputs.shape)
    weights = [weight.value for weight in layer.trainable_variables]

    def forward():
        return layer(inputs)

    def both():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(layer(inputs)))
        return tape.gradient(loss, [inputs, *weights])

    call = tf.function(both if size.both else forward)
    with uncompiled():
        return call.get_concrete_function()
