"""Ids and positions: their integer type, and those outside their range.

What a kernel does with an index outside its table depends on backend and
device: it raises an error, clamps, wraps or returns 0. Here a known index,
outside compiled functions, raises ValueError; any other gives NaN, unless the
kernel raises an error of its own, as TensorFlow's and PyTorch's on a CPU.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_transformer.config import LARGEST_INT
from keras_transformer.types import Tensor, TensorLike


def arange(*bounds: int | Tensor) -> Tensor:
    """Returns int32 `keras.ops.arange`; by itself it depends on floatx."""
    return ops.arange(*bounds, dtype="int32")


def as_ids(ids: TensorLike) -> Tensor:
    """Converts ids of any numeric dtype, or lists, to int32 or int64."""
    ids = ops.convert_to_tensor(ids)
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if dtype in ("int32", "int64"):
        return ids
    if "float" in dtype:
        # Backends cast numbers beyond int32 differently.
        ids = ops.clip(ops.cast(ids, "float32"), -1.0, LARGEST_INT - 127.0)
    return ops.cast(ids, "int64" if dtype == "uint64" else "int32")


def look_up(
    table: Tensor,
    ids: Tensor,
    name: str,
    scale: float = 1.0,
    dtype: str | None = None,
) -> Tensor:
    """Returns `scale` times the rows of a table [n, D] at ids [...].

    They are float [..., D], of `dtype` or the table's. A row is NaN if its id
    is outside the table; see `bound_ids` for the errors, which call it `name`.
    """
    ids, is_inside = bound_ids(ids, table.shape[0], name)
    rows = ops.take(table, ids, axis=0)
    rows = ops.cast(rows, dtype or rows.dtype)
    factors = nan_unless(is_inside, scale, rows.dtype)
    return rows * ops.expand_dims(factors, -1)


def bound_ids(ids: Tensor, count: int, name: str) -> tuple[Tensor, Tensor]:
    """Returns ids with `count` for those outside, and which are inside.

    Ids are int32 or int64 [...], inside from 0 to `count` - 1. A known id
    outside raises ValueError, which calls it `name`. In compiled functions
    `count` lets kernels raise an error that can; Keras' counts negative ids
    from the end.
    """
    validate_ids(ids, count, name)
    is_inside = ops.logical_and(ids >= 0, ids < count)
    return ops.cast(ops.where(is_inside, ids, count), "int32"), is_inside


def nan_unless(is_inside: Tensor, number: float, dtype: str) -> Tensor:
    """Returns the number where True, NaN elsewhere: float [...]."""
    number, nan = (
        ops.convert_to_tensor(each, dtype) for each in (number, math.nan)
    )
    return ops.where(is_inside, number, nan)


def validate_ids(ids: TensorLike, count: int, name: str) -> None:
    """Raises ValueError if a known id is not from 0 to `count` - 1."""
    values = _known_values(ids)
    if values is None:
        return
    outside = values[(values < 0) | (values >= count)]
    if outside.size:
        raise ValueError(
            f"Each {name} must be from 0 to {count - 1}, not {outside[0]}."
        )


def _known_values(ids):
    """Returns ids as an array; None while traced, when they have no values."""
    try:
        return np.asarray(ids)
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        return None
