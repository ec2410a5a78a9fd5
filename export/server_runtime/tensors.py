"""NumPy arrays to tensors of TensorFlow's C library and back."""

import contextlib
import ctypes
import math

import numpy as np

from export.server_runtime.library import ErrorCode, ServerError

_STRING = 7
# TF_DataType: number, and name in NumPy; strings are objects, bytes each.
_NAMES = {1: "float32", 3: "int32", _STRING: "string", 9: "int64", 10: "bool"}
_NUMBERS = {name: number for number, name in _NAMES.items()}
# sizeof(TF_TString)
_STRING_SIZE = 24


def type_name(number):
    """Returns the name of a TF_DataType, such as "int32" or "type 14"."""
    return _NAMES.get(number, f"type {number}")


def is_known(name):
    """Returns whether tensors of a type's name can be read and written."""
    return name in _NUMBERS


def type_number(name):
    """Returns the TF_DataType of a name, such as 3 of "int32"."""
    return _NUMBERS[name]


def as_array(value, dtype):
    """Returns what a caller gave as an array to send.

    Args:
        value: array, or list nested as deep as the rank; for text, of bytes
            or str.
        dtype: name of the type that is expected. Lists take it; an array of
            another type is refused, as a server does.

    Returns:
        Array of that type; for "string", of objects, all of them bytes.

    Raises:
        ServerError: INVALID_ARGUMENT, the value is not of that type;
            UNIMPLEMENTED, no such type is known here.
    """
    if not is_known(dtype):
        raise ServerError(
            ErrorCode.UNIMPLEMENTED, f"Tensors of {dtype} are not supported."
        )
    if dtype == "string":
        array = np.array(value, dtype=object)
        return _each(array, _as_bytes)
    if isinstance(value, np.ndarray) and value.dtype != dtype:
        raise _mismatch(dtype, value.dtype)
    try:
        return np.asarray(value, dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise _mismatch(dtype, error) from None


@contextlib.contextmanager
def tensor_of(runtime, array):
    """Gives a TF_Tensor with the content of an array; frees it at the end.

    Args:
        runtime: Runtime.
        array: of `as_array`.

    Yields:
        The tensor's address.
    """
    is_text = array.dtype == object
    number = _STRING if is_text else _NUMBERS[array.dtype.name]
    size = _STRING_SIZE * array.size if is_text else array.nbytes
    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    tensor = runtime.TF_AllocateTensor(number, sizes, array.ndim, size)
    start = runtime.TF_TensorData(tensor)
    try:
        if is_text:
            for cell, text in zip(_cells(start, array.size), array.flat):
                runtime.TF_StringInit(cell)
                runtime.TF_StringCopy(cell, text, len(text))
        elif size:
            ctypes.memmove(start, array.ctypes.data, size)
        yield tensor
    finally:
        runtime.TF_DeleteTensor(tensor)


def to_array(runtime, tensor):
    """Returns a TF_Tensor's content as an array; text as objects of bytes.

    Raises:
        ServerError: UNIMPLEMENTED, its type is not known here.
    """
    rank = runtime.TF_NumDims(tensor)
    shape = tuple(runtime.TF_Dim(tensor, axis) for axis in range(rank))
    dtype = type_name(runtime.TF_TensorType(tensor))
    start = runtime.TF_TensorData(tensor)
    if not is_known(dtype):
        raise ServerError(
            ErrorCode.UNIMPLEMENTED, f"Tensors of {dtype} are not supported."
        )
    if dtype == "string":
        array = np.empty(shape, object)
        for place, cell in enumerate(_cells(start, math.prod(shape))):
            array.flat[place] = ctypes.string_at(
                runtime.TF_StringGetDataPointer(cell),
                runtime.TF_StringGetSize(cell),
            )
        return array
    array = np.empty(shape, dtype)
    if array.size:
        ctypes.memmove(array.ctypes.data, start, array.nbytes)
    return array


def _cells(start, count):
    return [start + _STRING_SIZE * place for place in range(count)]


def _each(array, function):
    out = np.empty(array.shape, object)
    for place, value in enumerate(array.flat):
        out.flat[place] = function(value)
    return out


def _as_bytes(value):
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bytes):
        return bytes(value)
    raise _mismatch("string", f"{type(value).__name__} {value!r:.60}")


def _mismatch(dtype, found):
    return ServerError(
        ErrorCode.INVALID_ARGUMENT, f"Expected {dtype}, got: {found}."
    )
