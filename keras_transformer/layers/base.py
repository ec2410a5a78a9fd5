"""Base classes of the layers, and validation of their arguments."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_transformer.config import validate_range
from keras_transformer.kernels import linear


class SequenceLayer(keras.layers.Layer):
    """Base of layers whose output has the shape of their first input."""

    # Names of the constructor's arguments, which are attributes too.
    config_names = ""

    def compute_output_shape(self, input_shape=None, *other_shapes, **by_name):
        """Returns the shape of the first input."""
        del other_shapes
        return tuple(input_shape or next(iter(by_name.values())))

    def compute_output_spec(self, *args, **kwargs):
        """Returns KerasTensors of the outputs."""
        parent = super()
        if self.built:
            # Runs `call`, which knows whether attention scores are returned,
            # and checks masks.
            parent = super(keras.layers.Layer, self)
        return parent.compute_output_spec(*args, **kwargs)

    def validate_width(self, shape, width=None):
        """Requires inputs [B, T, D] of this width, now and in later calls."""
        found = shape[-1] if len(shape) == 3 else None
        if found is None or found != (width or found):
            raise ValueError(
                f"{type(self).__name__} takes inputs [batch, length, "
                f"{width or 'width'}] of known width, not {tuple(shape)}."
            )
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: shape[-1]})

    def get_config(self):
        """Returns the constructor's arguments."""
        names = self.config_names.split()
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **own}


class Projection(keras.layers.Dense):
    """Dense layer x W + b for one or several outputs, in one product.

    LoRA is Keras' own (`enable_lora`); all outputs share its first factor.

    `widths` are the numbers of columns of the outputs; Glorot's uniform
    initializer, its variance multiplied by `variance`, initializes each
    output's columns separately. The bias of output number `frozen_bias` gets
    no gradient.
    """

    def __init__(self, widths, variance=1.0, frozen_bias=None, **kwargs):
        def initialize(shape, dtype=None):
            glorot = keras.initializers.VarianceScaling
            blocks = [
                glorot(variance, "fan_avg", "uniform")((shape[0], width), dtype)
                for width in widths
            ]
            return ops.concatenate(blocks, axis=1)

        super().__init__(sum(widths), kernel_initializer=initialize, **kwargs)
        self.widths = list(widths)
        self.variance = variance
        self.frozen_bias = frozen_bias

    def call(self, inputs, training=False):
        """Returns float [..., sum of widths] for float [..., n]."""
        bias, number = self.bias, self.frozen_bias
        if bias is not None and number is not None:
            blocks = self.split(bias)
            blocks[number] = ops.stop_gradient(blocks[number])
            bias = ops.concatenate(blocks)
        return linear(inputs, self.kernel, bias, training)

    def split(self, outputs):
        """Splits the last axis into the outputs: list of float [..., width]."""
        if len(set(self.widths)) == 1:
            # Keras computes the sizes from indices at each step.
            return ops.split(outputs, len(self.widths), axis=-1)
        *ends, _ = itertools.accumulate(self.widths)
        return ops.split(outputs, ends, axis=-1)

    def quantize(self, mode=None, config=None, **kwargs):
        """Raises a ValueError, since `call` would ignore int8 weights."""
        raise ValueError(
            f"Layers of keras_transformer cannot be quantized to {mode}; "
            "export the model with `python -m export.ctranslate2 "
            "--quantization=int8`, or exclude them with `filters`."
        )


def validate_counts(layer, *names):
    """Raises a ValueError unless attributes are integers of at least 1."""
    for name in names:
        validate_range(name, getattr(layer, name), 1)


def as_ids(ids):
    """Returns ids of any numeric dtype, or lists, as int32 or int64."""
    ids = ops.convert_to_tensor(ids)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    return ids if dtype in ("int32", "int64") else ops.cast(ids, "int32")


def look_up(table, ids, name):
    """Returns the rows of a table [n, D] at ids [...]: float [..., D].

    An id outside the table raises ValueError if its value is known. A compiled
    function cannot raise: there it is an error from TensorFlow and PyTorch on a
    CPU, and NaN from JAX. `name` names an id in the message.
    """
    count = table.shape[0]
    if not validate_ids(ids, count, name):
        # Keras counts negative indices from the end.
        ids = ops.where(ids < 0, count, ids)
    return ops.take(table, ids, axis=0)


def validate_ids(ids, count, name):
    """Checks that ids are from 0 to `count` - 1 and raises ValueError.

    Returns whether the values of the ids are known, and so checked.
    """
    try:
        values = np.asarray(ids)
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        # While a function is traced, tensors have no values.
        return False
    outside = values[(values < 0) | (values >= count)]
    if outside.size:
        raise ValueError(
            f"Each {name} must be from 0 to {count - 1}, not {outside[0]}."
        )
    return True
