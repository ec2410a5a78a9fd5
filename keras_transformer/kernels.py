"""Faster implementations of plain formulas and Keras layers, by backend.

On TensorFlow, hand-written gradients save much of a training step on a CPU.
Other backends use the plain formulas, whose derived gradients their compilers
fuse. Results are equal up to rounding. Percentages in docstrings are the share
of a base-size training step that is saved (docs/measured/training_step.md).
"""

from collections.abc import Callable

import keras
from keras import ops

from keras_transformer.types import Tensor

USE_FAST_KERNELS = keras.backend.backend() == "tensorflow"

# Keras 3.10 lacks `ops.view`.
_HAS_VIEWS = keras.backend.backend() in ("tensorflow", "jax") and hasattr(
    ops, "view"
)
_BYTE_VALUES = 256
# Above this rate 8 bits cannot represent the threshold.
_MAX_BYTE_RATE = 254 / _BYTE_VALUES


def custom_gradient(
    function: Callable[..., tuple[Tensor, Callable]],
) -> Callable[..., Tensor]:
    """Decorates a function that returns a tensor and its gradient function.

    The latter maps the gradient of the tensor to gradients of the inputs. It
    has the same signature on all backends, unlike with Keras' decorator.
    """

    @ops.custom_gradient
    def wrapped(*tensors):
        value, gradient = function(*tensors)

        # Keras passes the gradient as `upstream` on PyTorch, else by position.
        def gradient_of_upstream(*arguments, upstream=None):
            return gradient(arguments[0] if upstream is None else upstream)

        return value, gradient_of_upstream

    return wrapped


def at_least_float32(values: Tensor) -> Tensor:
    """Casts to float32; keeps float64."""
    dtype = keras.backend.result_type(values.dtype, "float32")
    return ops.cast(values, dtype)


def linear(
    inputs: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    training: bool = False,
) -> Tensor:
    """Returns inputs @ kernel + bias, float [..., m], in the inputs' dtype.

    Leading dimensions are folded into one, so that every backend runs a single
    matrix product. With `training`, TensorFlow uses a hand-written gradient (4
    to 5 % of a step).
    """
    shape = ops.shape(inputs)
    rows = ops.reshape(inputs, (-1, kernel.shape[0]))
    weights = [
        ops.cast(each, inputs.dtype)
        for each in (kernel, bias)
        if each is not None
    ]
    multiply = _affine
    if training and USE_FAST_KERNELS:
        multiply = _affine_with_gradient
    outputs = multiply(rows, *weights)
    return ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))


def _affine(rows, kernel, *bias):
    outputs = ops.matmul(rows, kernel)
    return outputs + bias[0] if bias else outputs


@custom_gradient
def _affine_with_gradient(rows, kernel, *bias):
    def gradient(upstream):
        return (
            ops.matmul(upstream, _transposed_copy(kernel)),
            ops.matmul(ops.transpose(rows), upstream),
            *[ops.sum(upstream, axis=0) for _ in bias],
        )

    return _affine(rows, kernel, *bias), gradient


def _transposed_copy(kernel):
    """Returns the transpose of [n, m], materialized if the matrix is wide."""
    # oneDNN is a fifth to a third faster with a copy than with the transpose
    # of a wide matrix. The extra axis keeps TensorFlow from undoing the copy.
    if kernel.shape[1] < kernel.shape[0]:
        return ops.transpose(kernel)
    copy = ops.transpose(ops.expand_dims(kernel, 0), (0, 2, 1))
    return ops.squeeze(copy, axis=0)


@keras.saving.register_keras_serializable("keras_transformer")
class Dropout(keras.layers.Dropout):
    """Dropout (Srivastava et al. 2014) with 8 random bits per entry.

    Keras draws 32 bits, which takes most of dropout's time on a CPU (2 to 3 %
    of a training step, on JAX more). PyTorch uses Keras' implementation.
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Returns the inputs, some set to 0 and the others scaled up."""
        is_supported = self.noise_shape is None and self.rate <= _MAX_BYTE_RATE
        if training and self.rate > 0 and is_supported and _HAS_VIEWS:
            return dropout(inputs, self.rate, self.seed_generator)
        return super().call(inputs, training=training)


def dropout(
    inputs: Tensor, rate: float, seed: keras.random.SeedGenerator
) -> Tensor:
    """Returns the inputs, each set to 0 with probability `rate` or scaled up.

    An entry is dropped if its random byte, from -128 to 127, is below 256 *
    rate - 128, rounded up or down at random for each row, so that the mean rate
    is exact. `rate` is at most 254 / 256; `seed` is a keras SeedGenerator.
    """
    *rows, width = ops.shape(inputs)
    count = (width + 3) // 4
    # Row by row, so that JAX can divide rows among devices.
    integers = keras.random.randint(
        (*rows, count, 1), -(2**31), 2**31 - 1, seed=seed
    )
    random_bytes = ops.reshape(ops.view(integers, "int8"), (*rows, 4 * count))
    rounding = keras.random.uniform((*rows, 1), seed=seed)
    threshold = ops.floor(rate * _BYTE_VALUES + rounding) - _BYTE_VALUES // 2
    is_kept = random_bytes[..., :width] >= ops.cast(threshold, "int8")
    return ops.where(is_kept, inputs * (1 / (1 - rate)), 0.0)


@keras.saving.register_keras_serializable("keras_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Layer normalization over the last axis (Ba et al. 2016).

    Training on TensorFlow uses a hand-written gradient; the derived gradient
    passes over the inputs about twice as often (2 to 4 % of a step).
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        """Returns the normalized inputs: float [..., D]."""
        if training and USE_FAST_KERNELS:
            return layer_norm(inputs, self.gamma, self.beta, self.epsilon)
        return super().call(inputs)


def layer_norm(
    inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> Tensor:
    """Returns (x - mean(x)) / sqrt(var(x) + epsilon) * gamma + beta.

    Inputs are float [..., D], `gamma` and `beta` float [D]. It computes in
    float32 or more and returns the dtype of the inputs.
    """
    dtype = keras.backend.result_type(inputs.dtype, "float32")
    gamma, beta = (ops.cast(each, dtype) for each in (gamma, beta))
    rows = ops.reshape(ops.cast(inputs, dtype), (-1, gamma.shape[0]))

    @custom_gradient
    def normalize(rows, gamma, beta):
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
        inverse = ops.rsqrt(variance + epsilon)
        normalized = centered * inverse

        def gradient(upstream):
            by_gamma = upstream * normalized
            # Row means of a product with gamma, as matrix products.
            mean_weights = gamma[:, None] / gamma.shape[0]
            mean = ops.matmul(upstream, mean_weights)
            slope = ops.matmul(by_gamma, mean_weights)
            return (
                (upstream * gamma - mean - normalized * slope) * inverse,
                ops.sum(by_gamma, axis=0),
                ops.sum(upstream, axis=0),
            )

        return normalized * gamma + beta, gradient

    outputs = normalize(rows, gamma, beta)
    return ops.cast(ops.reshape(outputs, ops.shape(inputs)), inputs.dtype)


def swap_heads(values: Tensor, differentiable: bool) -> Tensor:
    """Swaps axes 1 and 2 of a tensor of rank 4.

    TensorFlow's float transpose calls oneDNN, which takes 0.1 ms on a CPU even
    for few elements; its integer transpose, which has no gradient, takes 0.01
    ms. A base-size decoding step has forty transposes, a tenth of its time.
    """
    if differentiable or not _HAS_VIEWS:
        return ops.transpose(values, (0, 2, 1, 3))
    dtype = keras.backend.standardize_dtype(values.dtype)
    bits = dtype.rpartition("float")[2]  # 16 for bfloat16
    integers = ops.view(values, f"int{bits}")
    return ops.view(ops.transpose(integers, (0, 2, 1, 3)), dtype)
