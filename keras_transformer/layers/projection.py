"""Products with a weight matrix, several of the same input side by side."""

import itertools

import keras
from keras import ops

from keras_transformer.kernels import linear


@keras.saving.register_keras_serializable("keras_transformer")
class Projection(keras.layers.Dense):
    """x W + b for one or several outputs, in one product.

    LoRA is Keras' own (`enable_lora`); several outputs share its first
    factor.

    Args:
        widths: number of columns of each output.
        variance: factor on the variance of Glorot's uniform initializer, by
            which each output's columns are initialised on their own.
        constant_bias: index of an output whose bias gets no gradient; None
            for no such output.
        **kwargs: of `keras.layers.Dense`.
    """

    def __init__(self, widths, variance=1.0, constant_bias=None, **kwargs):
        super().__init__(
            sum(widths),
            kernel_initializer=_initialize_blocks(widths, variance),
            **kwargs,
        )
        self.widths = list(widths)
        self.variance = variance
        self.constant_bias = constant_bias

    def call(self, inputs, training=False):
        """Returns float [..., sum of widths] for float [..., n]."""
        bias = self.bias
        if bias is not None and self.constant_bias is not None:
            blocks = self.split(bias)
            number = self.constant_bias
            blocks[number] = ops.stop_gradient(blocks[number])
            bias = ops.concatenate(blocks)
        return linear(inputs, self.kernel, bias, training)

    def split(self, outputs):
        """Splits the last axis into the outputs: list of float [..., width]."""
        if len(self.widths) == 1:
            return [outputs]
        if len(set(self.widths)) == 1:
            return ops.split(outputs, len(self.widths), axis=-1)
        *ends, _ = itertools.accumulate(self.widths)
        return ops.split(outputs, ends, axis=-1)

    def quantize(self, mode=None, config=None, **kwargs):
        """Refuses; see `SharedEmbedding.quantize`."""
        raise ValueError(
            f"Layers of keras_transformer cannot be quantized to {mode}; "
            "export the model with `python -m export.ctranslate2 "
            "--quantization=int8`, or exclude them with `filters`."
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        config = super().get_config()
        for name in ("units", "kernel_initializer"):
            del config[name]
        return {
            **config,
            "widths": self.widths,
            "variance": self.variance,
            "constant_bias": self.constant_bias,
        }


def _initialize_blocks(widths, variance):
    """Returns an initializer that has Glorot's rule for each block."""

    def initialize(shape, dtype=None):
        blocks = [
            keras.initializers.VarianceScaling(variance, "fan_avg", "uniform")(
                (shape[0], width), dtype=dtype
            )
            for width in widths
        ]
        return ops.concatenate(blocks, axis=1)

    return initialize
