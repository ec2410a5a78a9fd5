"""Matrix products in int8, for processors with VNNI or AMX.

The embeddings, the columns of all other matrices and, at run time, the rows of
activations are each divided by their largest magnitude and rounded to one of
255 values. Sums of products are exact. Attention, norms and biases stay in
float32.
"""

import math
import typing

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from export.common.errors import InputError
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.ids import as_ids, look_up
from keras_transformer.layers.base import Projection, flatten_layers
from keras_transformer.layers.embedding import SharedEmbedding
from keras_transformer.types import Tensor, TensorLike, TransformerLike

NOT_SUPPORTED = (
    "Sums of int8 products are not exact on this processor, which lacks "
    "AVX512-VNNI, AVX-VNNI and AMX; omit --quantization."
)

_attribute = tf.compat.v1.AttrValue

_LARGEST = 127
# The reciprocal of a smaller one would be infinite.
_SMALLEST_RANGE = np.float32(1e-30)


def quantize_model(model: TransformerLike) -> list[keras.Variable]:
    """Replaces the matrices of a Transformer or Ensemble, in place.

    The model then works within tf.functions only. Returns the new variables, a
    list. Raises InputError if a weight is not finite, or if the processor
    cannot multiply int8 exactly.
    """
    if not is_supported():
        raise InputError(NOT_SUPPORTED)
    models = model.models if isinstance(model, Ensemble) else [model]
    # A shared embedding is the value of several attributes.
    replaced: dict[typing.Any, typing.Any] = {}
    for layer in (each for model in models for each in flatten_layers(model)):
        if layer.quantization_mode:
            raise InputError(
                "Expected a model with float weights, got one quantized by "
                "Keras; omit `quantize` or the quantization."
            )
        for name, part in [*vars(layer).items()]:
            if type(part) in _INT8_CLASSES:
                if part not in replaced:
                    replaced[part] = _INT8_CLASSES[type(part)](part)
                setattr(layer, name, replaced[part])
    return [weight for each in replaced.values() for weight in each.weights]


class Int8Matrix:
    """A matrix W, float [n, m], for products with rows of floats.

    Attributes:
        values: int8 variable [m, n], the rounded columns of W.
        ranges: float32 variable [m], the largest magnitude of each column.
    """

    def __init__(self, matrix: TensorLike):
        columns = np.asarray(matrix, "float32").T
        if not np.isfinite(columns).all():
            raise InputError("Expected finite weights, got NaN or infinity.")
        ranges = np.maximum(np.abs(columns).max(axis=1), _SMALLEST_RANGE)
        values = np.rint(columns * (_LARGEST / ranges)[:, None])
        self.values = _constant("values", values.astype("int8"))
        self.ranges = _constant("ranges", ranges)

    def multiply(self, inputs: Tensor) -> Tensor:
        """Returns x W, float32 [..., m], for x, float32 [..., n].

        A row with NaN or infinity gives NaN.
        """
        rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
        ranges = tf.reduce_max(tf.abs(rows), axis=1, keepdims=True)
        # Replaces infinity by NaN in one operation.
        ranges = tf.truncatemod(ranges, np.inf)
        ranges = tf.maximum(ranges, _SMALLEST_RANGE)
        values = tf.cast(tf.round(rows * (_LARGEST / ranges)), tf.int8)
        column_ranges = tf.convert_to_tensor(self.ranges)
        product = _multiply(values, self.values.value, column_ranges)
        # A static shape but for the batch takes fewer operations.
        middle = inputs.shape[1:-1]
        if not middle.is_fully_defined():
            middle = tf.unstack(tf.shape(inputs)[1:-1])
        return tf.reshape(product * ranges, [-1, *middle, product.shape[1]])

    def take(self, ids: Tensor) -> Tensor:
        """Returns columns of W, float32 [..., n], at ids [...]."""
        values = look_up(self.values, ids, "id", dtype="float32")
        return values * (tf.gather(self.ranges, ids) / _LARGEST)[..., None]


def _free_variable(layer, name):
    """Frees a variable's memory, where the version of Keras can."""
    # Keras has no public function for it.
    untrack = getattr(layer, "_untrack_variable", None)
    variable = getattr(layer, name, None)
    if untrack is not None and variable is not None:
        untrack(variable)
        setattr(layer, name, None)


class Int8Projection:
    """A Projection with an Int8Matrix; frees the projection's kernel."""

    def __init__(self, projection: Projection):
        self._matrix = Int8Matrix(ops.convert_to_numpy(projection.kernel))
        self._bias = projection.bias
        self.split = projection.split
        _free_variable(projection, "_kernel")
        self.weights = [
            *projection.weights,
            self._matrix.values,
            self._matrix.ranges,
        ]

    def __call__(self, inputs: Tensor, training: bool = False) -> Tensor:
        """See `Projection.call`; for inference only."""
        return _add(self._matrix.multiply(inputs), self._bias)


class Int8Embedding:
    """A SharedEmbedding with an Int8Matrix; frees its matrix."""

    def __init__(self, embedding: SharedEmbedding):
        matrix = ops.convert_to_numpy(embedding.embeddings).T
        self._matrix = Int8Matrix(matrix)
        self._scale = math.sqrt(embedding.d_model)
        self._embedding, self.bias = embedding, embedding.bias
        self.append_bias_input = embedding.append_bias_input
        _free_variable(embedding, "embeddings")
        self.weights = [self._matrix.values, self._matrix.ranges]

    def __call__(self, ids: TensorLike) -> Tensor:
        """See `SharedEmbedding.call`."""
        return self._matrix.take(as_ids(ids)) * self._scale

    def projection(self) -> None:
        """Returns None, since `logits` needs no other matrix."""

    def logits(
        self, states: Tensor, projection: Tensor | None = None
    ) -> Tensor:
        """See `SharedEmbedding.logits`."""
        return _add(self._matrix.multiply(states), self.bias)

    def new_projection(self, output_matrix: Tensor) -> Int8Projection:
        """See `SharedEmbedding.new_projection`."""
        return Int8Projection(self._embedding.new_projection(output_matrix))

    def output_matrix(self, ids: Tensor | None = None) -> Tensor:
        """See `SharedEmbedding.output_matrix`."""
        if ids is None:
            ids = ops.arange(self._embedding.vocabulary_size)
        matrix = self._matrix.take(ids)
        if self.bias is None:
            return matrix
        bias = ops.take(self.bias, ids)[..., None]
        return ops.concatenate([matrix, bias], axis=-1)


_INT8_CLASSES = {Projection: Int8Projection, SharedEmbedding: Int8Embedding}


def is_supported() -> bool:
    """Returns whether models can be quantized on this machine."""
    try:
        return bool(multiplies_exactly())
    except tf.errors.OpError:  # TensorFlow was built without oneDNN.
        return False


@tf.function
def multiplies_exactly() -> Tensor:
    """Returns whether sums of the largest products are exact: bool [].

    Without VNNI or AMX, oneDNN adds pairs of products in 16 bits.
    """
    rows = tf.fill([1, 64], tf.constant(_LARGEST, tf.int8))
    product = _multiply(rows, rows, tf.constant([1.0]))[0, 0]
    return abs(product - 64.0) < 0.01


def _multiply(rows, columns, ranges):
    """Returns rows / 127 times columns * ranges / 127: float32 [N, m].

    Takes int8 [N, n] and [m, n], and float32 [m].
    """
    # Public operations are fast for constants only, of which a server's process
    # has many copies.
    rows, columns = (tf.bitcast(each, tf.qint8) for each in (rows, columns))
    bias, row_range = tf.zeros(ranges.shape), tf.constant(1.0)
    product = tf.compat.v1.get_default_graph().create_op(
        "_QuantizedMatMul",
        [rows, columns, bias, row_range, row_range, ranges, ranges],
        [tf.float32],
        name="int8_product",
        attrs={
            "Tdevice_inputs": _type_list(tf.qint8, tf.qint8, tf.float32),
            "Thost_inputs": _type_list(*[tf.float32] * 4),
            "Tdevice_outputs": _type_list(tf.float32),
            "T1": _attribute(type=tf.qint8.as_datatype_enum),
            "T2": _attribute(type=tf.qint8.as_datatype_enum),
            "transpose_b": _attribute(b=True),
            "fused_ops": _attribute(list={"s": [b"BiasAdd", b"Dequantize"]}),
        },
    )
    (output,) = product.outputs
    output.set_shape([rows.shape[0], columns.shape[0]])
    return output


def _type_list(*types):
    return _attribute(list={"type": [each.as_datatype_enum for each in types]})


def _add(outputs, bias):
    return outputs if bias is None else outputs + bias


def _constant(name, values):
    """Returns a keras.Variable that is not trained."""
    return keras.Variable(
        values,
        trainable=False,
        dtype=values.dtype.name,
        autocast=False,
        name=f"int8_{name}",
    )
