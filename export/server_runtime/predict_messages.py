"""The messages of TensorFlow Serving's Predict, without tensorflow.

Its classes come with tensorflow alone, and loading that would make a client of
half a second one of several.
"""

import functools
import math

import numpy as np

from export.server_runtime.saved_model import message_class
from export.server_runtime.tensors import (
    as_array,
    is_known,
    type_name,
    type_number,
)

# The parts used of tensorflow_serving/apis/predict.proto, model.proto and
# prediction_log.proto and of tensorflow/core/framework/tensor.proto. Packed
# floats and booleans are bytes on the wire.
_MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictRequest": [
        ("model_spec", 1, "ModelSpec"),
        ("inputs", 2, ["Item"]),
    ],
    "PredictResponse": [("outputs", 1, ["Item"])],
    "ModelSpec": [
        ("name", 1, "string"),
        ("version", 2, "Int64Value"),
        ("signature_name", 3, "string"),
        ("version_label", 4, "string"),
    ],
    "Int64Value": [("value", 1, "int64")],
    "Item": [("key", 1, "string"), ("value", 2, "Tensor")],
    "Tensor": [
        ("dtype", 1, "int64"),
        ("shape", 2, "Shape"),
        ("content", 4, "bytes"),
        ("floats", 5, "bytes"),
        ("integers", 7, ["int64"]),
        ("texts", 8, ["bytes"]),
        ("booleans", 11, "bytes"),
    ],
    "Shape": [("lengths", 2, ["Length"])],
    "Length": [("size", 1, "int64")],
}
# The server looks at the signature of a warm-up request alone.
_MODEL = "translator"
# A few bytes of an answer may ask for any number of values.
_MOST_VALUES = 1 << 28
_VALUES = {"float32": "floats", "bool": "booleans"}


@functools.cache
def _class(name):
    return message_class(_MESSAGES, name)


def pack_predict_request(model, signature, texts):
    """Returns the bytes of a PredictRequest.

    Args:
        model: ServedModel.
        signature: name of the signature, which has one input, `text`.
        texts: list of str.
    """
    request = _class("PredictRequest")()
    spec = request.model_spec
    spec.name, spec.signature_name = model.name, signature
    if model.version is not None:
        spec.version.value = model.version
    if model.label is not None:
        spec.version_label = model.label
    _add_input(request, "text", "string", texts)
    return request.SerializeToString()


def unpack_predict_response(content):
    """Returns the outputs of a PredictResponse: dict, name to array.

    Text is an object array of bytes. Outputs of types unknown here are left
    out.

    Args:
        content: bytes.

    Raises:
        ValueError: they are no PredictResponse, or a tensor does not fill
            its shape.
    """
    try:
        response = _class("PredictResponse").FromString(content)
    except Exception as error:
        raise ValueError(f"no PredictResponse ({error})") from error
    outputs = {each.key: _array(each.value) for each in response.outputs}
    return {name: each for name, each in outputs.items() if each is not None}


def pack_request(signature, inputs):
    """Returns the bytes of one PredictionLog, which holds a request.

    Args:
        signature: name of the signature.
        inputs: dict, name to pair of the type's name and the value.
    """
    log = _class("PredictionLog")()
    request = log.predict_log.request
    request.model_spec.name = _MODEL
    request.model_spec.signature_name = signature
    for name, (dtype, value) in inputs.items():
        _add_input(request, name, dtype, value)
    return log.SerializeToString()


def unpack_request(record):
    """Returns a signature's name and its inputs, a dict of arrays.

    Args:
        record: bytes of one PredictionLog.

    Raises:
        ValueError: it is none, or a tensor is not whole.
    """
    try:
        log = _class("PredictionLog").FromString(record)
    except Exception as error:
        raise ValueError(f"it is no PredictionLog ({error})") from error
    request = log.predict_log.request
    if not request.model_spec.signature_name:
        raise ValueError("it asks for no signature")
    inputs = {each.key: _array(each.value) for each in request.inputs}
    if any(each is None for each in inputs.values()):
        raise ValueError("an input is of a type that is not known here")
    return request.model_spec.signature_name, inputs


def _add_input(request, name, dtype, value):
    array = as_array(value, dtype)
    tensor = request.inputs.add(key=name).value
    tensor.dtype = type_number(dtype)
    for size in array.shape:
        tensor.shape.lengths.add(size=size)
    if dtype == "string":
        tensor.texts.extend(array.ravel().tolist())
    else:
        tensor.content = array.tobytes()


def _array(tensor):
    """Returns a TensorProto's array, or None of a type unknown here."""
    shape = [length.size for length in tensor.shape.lengths]
    if min(shape, default=0) < 0:
        raise ValueError(f"a tensor of shape {shape}")
    dtype = type_name(tensor.dtype)
    if not is_known(dtype):
        return None
    if dtype == "string":
        values = np.array(list(tensor.texts), object)
    elif dtype == "int32" and not tensor.content:
        values = np.array(list(tensor.integers), np.int64).astype(dtype)
    else:
        values = getattr(tensor, _VALUES.get(dtype, "content"))
        values = np.frombuffer(tensor.content or values, dtype)
    return _filled(values, math.prod(shape)).reshape(shape)


def _filled(values, count):
    """Repeats the last value, which a TensorProto may leave out."""
    missing = count - len(values)
    too_many = count > _MOST_VALUES
    if too_many or missing < 0 or (missing and not len(values)):
        raise ValueError(f"{len(values)} values for {count} places")
    return np.concatenate([values, np.repeat(values[-1:], missing)])
