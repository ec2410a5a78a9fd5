"""The layer types of Table 1, with their calls, FLOPs and memory."""

import concurrent.futures
import dataclasses
import functools
import multiprocessing
import typing

import keras
import tensorflow as tf

import keras_transformer as kt
from benchmarks.harness.worker import (
    System,
    peak_memory,
    repeat_for,
)
from export.common.errors import InputError

# Kernel size k, and d_k of the base and big models.
KERNEL = 3
_HEAD = 64
# Measured number of float32 [H, n, n] that full attention holds at once; the
# softmax overwrites its input.
_SCORES_FORWARD, _SCORES_BOTH = 1.2, 3.6
_SEED = 1
# Length of a first call, for memory that TensorFlow allocates once.
_FIRST_LENGTH = 64


class LayerSize(typing.NamedTuple):
    """Width d, length n, and whether to include the backward pass."""

    width: int
    length: int
    both: bool


@dataclasses.dataclass(frozen=True)
class LayerJob:
    """Job of a Worker: calls of a layer."""

    cores: int
    device: str = "cpu"

    def warm_up(self, peer, size):
        peer.run(size)

    def calls(self, peer, size, seconds):
        """Yields calls for at least `seconds`."""
        return repeat_for(lambda: peer.run(size), seconds)


def self_attention(width, window=0, **arguments):
    """Returns a MultiHeadAttention with heads of 64, as in base and big."""
    heads = max(1, width // _HEAD)
    size = width // heads
    return kt.MultiHeadAttention(
        heads, size, attention_window=window, **arguments
    )


def recurrent(width, kind, **arguments):
    """Returns a recurrent layer that outputs the state of each position."""
    return kind(width, return_sequences=True, **arguments)


def convolution(width, kind, padding="same", **arguments):
    """Returns a convolution over a position and its two neighbors."""
    return kind(width, KERNEL, padding=padding, **arguments)


@dataclasses.dataclass(frozen=True)
class LayerType(System):
    """A System of LayerJobs, and a row of Table 1.

    `layer` is a function of a width that returns a Keras layer.
    """

    maker: str = ""
    keras_backend: str | None = "tensorflow"
    title: str = ""
    layer: typing.Callable | None = None
    complexity: str = ""

    def make(self, job):
        del job
        return LayerRunner(self.layer)


def _type(title, layer, complexity):
    return LayerType(title=title, layer=layer, complexity=complexity)


GRU = functools.partial(recurrent, kind=keras.layers.GRU)
LSTM = functools.partial(recurrent, kind=keras.layers.LSTM)
CONV = functools.partial(convolution, kind=keras.layers.Conv1D)
SEPARABLE = functools.partial(convolution, kind=keras.layers.SeparableConv1D)
FULL = "full"
TYPES = {
    FULL: _type("self-attention", self_attention, "O(n²·d)"),
    "gru": _type("recurrent, GRU", GRU, "O(n·d²)"),
    "lstm": _type("recurrent, LSTM", LSTM, "O(n·d²)"),
    "conv": _type(f"convolution, k = {KERNEL}", CONV, "O(k·n·d²)"),
    "separable": _type(
        f"separable, k = {KERNEL}", SEPARABLE, "O(k·n·d + n·d²)"
    ),
    **{
        f"restricted-{window}": _type(
            f"restricted, r = {window}",
            functools.partial(self_attention, window=window),
            "O(r·n·d)",
        )
        for window in (64, 256)
    },
}


def flops(name, n, d):
    """Returns the FLOPs of products and convolutions in a forward pass."""
    projections = 8 * n * d**2
    return {
        FULL: projections + 4 * n * n * d,
        "gru": 3 * 4 * n * d**2,
        "lstm": 4 * 4 * n * d**2,
        "conv": 2 * KERNEL * n * d**2,
        "separable": 2 * n * d * (KERNEL + d),
        "restricted-64": projections + 4 * n * min(n, 2 * 64 + 1) * d,
        "restricted-256": projections + 4 * n * min(n, 2 * 256 + 1) * d,
    }[name]


def score_bytes(size):
    """Returns the memory of full attention's scores and gradients."""
    tensors = _SCORES_BOTH if size.both else _SCORES_FORWARD
    heads = max(1, size.width // _HEAD)
    return int(4 * tensors * heads * size.length**2)


class LayerRunner:
    """Calls a layer with one sequence, in a plain TensorFlow graph."""

    def __init__(self, make_layer):
        keras.utils.set_random_seed(_SEED)
        self.note = f"Keras {keras.__version__}, TensorFlow {tf.__version__}"
        self._make_layer = make_layer
        self._functions = {}

    def prepare(self, size):
        """Creates weights, input and graph of a LayerSize, once."""
        if size not in self._functions:
            layer = self._make_layer(size.width)
            self._functions[size] = _function(layer, size)

    def run(self, size):
        """Runs the forward pass, and backward if `size.both`."""
        self.prepare(size)
        self._functions[size]()


def _function(layer, size):
    """Returns the call; `both` computes gradients of inputs and weights."""
    inputs = tf.random.stateless_normal((1, size.length, size.width), (1, 2))
    layer.build(inputs.shape)
    weights = [weight.value for weight in layer.trainable_variables]

    def forward():
        return layer(inputs)

    def both():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(layer(inputs, training=True)))
        return tape.gradient(loss, [inputs, *weights])

    call = tf.function(both if size.both else forward)
    return call.get_concrete_function()


def measure_memory(layers, calls):
    """Returns peak bytes without weights, a dict by (name, LayerSize).

    TensorFlow reuses freed memory, so a call after larger calls would seem to
    need none. Each call runs in a process forked from one that has imported
    TensorFlow but not used it, which takes some tenths of a second.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.layer_types.layers"])
    with concurrent.futures.ProcessPoolExecutor(
        max_workers=1, mp_context=context, max_tasks_per_child=1
    ) as pool:
        found = {}
        for name, size in calls:
            try:
                taken = pool.submit(_taken_bytes, layers[name], size).result()
            except concurrent.futures.process.BrokenProcessPool as error:
                raise InputError(
                    f"The process that ran {name} at {size} was killed, "
                    "usually for want of memory; set --memory_gib to less."
                ) from error
            found[name, size] = taken
    return found


def _taken_bytes(layer, size):
    runner = layer.make(None)
    runner.run(size._replace(length=min(_FIRST_LENGTH, size.length)))
    runner.prepare(size)
    before = peak_memory("VmRSS")
    runner.run(size)
    return max(0, peak_memory() - before)
