"""The weights of a model as the page's engine.js reads them."""

import typing

import numpy as np
from keras import ops

import keras_transformer as kt

_MAX_INT8 = 127
# The kernel reads 16 bytes at a time.
_ALIGNMENT = 16


def pack_weights(model: kt.Transformer) -> tuple[dict[str, typing.Any], bytes]:
    """Returns a description of the weights, and their bytes.

    The description has for each vector, float32, where it begins, and for each
    matrix a dict: int8 `weights`, a row per output or token that is padded to
    `stride` columns, and float32 `scales`, one per row. Names are Keras' paths.
    """
    content, tensors = bytearray(), {}

    def add(array):
        position = len(content)
        content.extend(array.tobytes())
        content.extend(bytes(-len(content) % _ALIGNMENT))
        return position

    for weight, array in _arrays(model):
        # Without the model's name, which may have a number.
        path = weight.path.partition("/")[2]
        if array.ndim == 1:
            tensors[path] = add(array)
            continue
        integers, scales = _round_rows(array)
        rows, columns = array.shape
        padding = -columns % _ALIGNMENT
        tensors[path.rpartition("/")[0]] = {
            "rows": rows,
            "columns": columns,
            "stride": columns + padding,
            "weights": add(np.pad(integers, [(0, 0), (0, padding)])),
            "scales": add(scales),
        }
    return tensors, bytes(content)


def round_weights(model: kt.Transformer) -> None:
    """Changes the weights of a model to those of the page."""
    for weight, array in _arrays(model):
        if array.ndim == 2:
            integers, scales = _round_rows(array)
            rounded = integers * scales[:, None]
            weight.assign(rounded.T if weight.name == "kernel" else rounded)


def _arrays(model):
    """Yields weights, and their values with a row per output or token."""
    for weight in model.weights:
        array = np.asarray(ops.convert_to_numpy(weight), "<f4")
        yield weight, array.T if weight.name == "kernel" else array


def _round_rows(matrix):
    """Returns int8 values, and the float32 scale of each row."""
    scales = np.maximum(np.abs(matrix).max(axis=1), 1e-9) / _MAX_INT8
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales
