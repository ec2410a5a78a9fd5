"""Base classes of the layers, initializers, and validation of arguments."""

import itertools
import math
import random
import typing
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from keras_transformer.config import validate_range
from keras_transformer.kernels import linear
from keras_transformer.types import Shape, Tensor


def flatten_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a Keras layer and all layers in its attributes, each once."""
    found, pending = {}, [layer]
    while pending:
        each = pending.pop()
        if isinstance(each, keras.layers.Layer) and id(each) not in found:
            found[id(each)] = each
            pending += vars(each).values()
        elif isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, (list, tuple)):
            pending += each
    return [*found.values()]


class SequenceLayer(keras.layers.Layer):
    """Base of layers whose output has the shape of their first input."""

    # Names of the constructor's arguments, which are attributes too.
    config_names: tuple[str, ...] = ()
    built: bool  # Of `keras.layers.Layer`.

    def compute_output_shape(
        self,
        input_shape: Shape | None = None,
        *others: typing.Any,
        **named_shapes: typing.Any,
    ) -> Shape:
        """Returns the shape of the first input."""
        del others
        return tuple(input_shape or next(iter(named_shapes.values())))

    def compute_output_spec(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.Any:
        """Returns KerasTensors of the outputs."""
        if not self.built:
            return super().compute_output_spec(*args, **kwargs)
        # Runs `call` symbolically, which validates masks and may return scores;
        # Keras' Layer would call `compute_output_shape` instead.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def require_width(self, shape: Shape, width: int | None = None) -> None:
        """Requires inputs [B, T, D] of one width, also in later calls."""
        actual = shape[-1] if len(shape) == 3 else None
        if actual is None or actual != (width or actual):
            raise ValueError(
                f"{type(self).__name__} takes inputs [batch, length, "
                f"{width or 'width'}] of known width, not {tuple(shape)}."
            )
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: shape[-1]})

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the constructor's arguments, unless quantized."""
        if any(layer.quantization_mode for layer in flatten_layers(self)):
            raise ValueError(
                f"A quantized {type(self).__name__} cannot be saved or cloned; "
                "save it before `quantize`, and quantize the loaded model."
            )
        own = {name: getattr(self, name) for name in self.config_names}
        return {**super().get_config(), **own}


class Projection(keras.layers.Dense):
    """Dense layer x W + b with several outputs from one matrix product.

    `widths` are the widths of the outputs. Glorot's uniform initializer, its
    variance multiplied by `variance`, initializes the columns of each output
    separately. The bias of the output at index `frozen_bias` gets no gradient.
    LoRA is Keras' (`enable_lora`); all outputs share its first factor.
    """

    def __init__(
        self,
        widths: Sequence[int],
        variance: float = 1.0,
        frozen_bias: int | None = None,
        **kwargs: typing.Any,
    ):
        def draw(generator, shape):
            blocks = []
            for width in widths:
                limit = math.sqrt(6 * variance / (shape[0] + width))
                block = generator.random((shape[0], width), np.float32)
                blocks.append((2 * block - 1) * limit)
            return np.concatenate(blocks, axis=1)

        initializer = random_initializer(draw)
        super().__init__(sum(widths), kernel_initializer=initializer, **kwargs)
        self.widths = list(widths)
        self.variance = variance
        self.frozen_bias = frozen_bias

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Returns float [..., sum of widths] for float [..., n]."""
        bias, index = self.bias, self.frozen_bias
        if bias is not None and index is not None:
            biases = self.split(bias)
            biases[index] = ops.stop_gradient(biases[index])
            bias = ops.concatenate(biases)
        return linear(inputs, self.kernel, bias, training)

    def split(self, outputs: Tensor) -> list[Tensor]:
        """Splits the last axis into the outputs: list of float [..., width]."""
        if len(set(self.widths)) == 1:
            # Given indices, Keras computes sizes from them at each step.
            return ops.split(outputs, len(self.widths), axis=-1)
        *ends, _ = itertools.accumulate(self.widths)
        return ops.split(outputs, ends, axis=-1)

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        **options: typing.Any,
    ) -> None:
        """Quantizes the kernel; `mode` is "int8", "int4" or "float8"."""
        if mode in ("gptq", "awq"):
            raise ValueError(
                f"Layers of keras_transformer cannot be quantized by {mode}, "
                "which calibrates blocks of one input in a sequence; expected "
                "int8, int4 or float8."
            )
        # Keras skips subclasses of Dense if it checks the type.
        super().quantize(mode, type_check=False, **options)


def random_initializer(
    draw: Callable[[np.random.Generator, tuple], np.ndarray],
) -> Callable[..., Tensor]:
    """Returns an initializer with the same numbers on every backend.

    `draw` is given a NumPy generator and a shape. Its seed is drawn as Keras'
    initializers draw theirs: see `keras.utils.set_random_seed`.
    """
    seed = random.getrandbits(64)

    def initialize(shape, dtype=None):
        values = draw(np.random.default_rng(seed), tuple(shape))
        return ops.convert_to_tensor(values, dtype)

    return initialize


def normal_initializer(stddev: float) -> Callable[..., Tensor]:
    """Returns a `random_initializer` of numbers around 0."""

    def draw(generator, shape):
        return generator.standard_normal(shape, np.float32) * stddev

    return random_initializer(draw)


def validate_counts(layer: keras.layers.Layer, *names: str) -> None:
    """Raises ValueError unless attributes are integers of at least 1."""
    for name in names:
        validate_range(name, getattr(layer, name), 1)
