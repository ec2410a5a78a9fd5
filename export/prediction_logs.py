"""Requests as TensorFlow Serving logs them: serialised PredictionLogs."""

import math

import numpy as np

from export.messages import message_class
from export.runtime_tensors import as_array, type_name, type_number

# The parts that a request has of tensorflow_serving/apis/prediction_log.proto
# and predict.proto, and of tensorflow/core/framework/tensor.proto.
_MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictRequest": [
        ("model_spec", 1, "ModelSpec"),
        ("inputs", 2, ["Input"]),
    ],
    "ModelSpec": [("name", 1, "string"), ("signature_name", 3, "string")],
    "Input": [("key", 1, "string"), ("value", 2, "Tensor")],
    "Tensor": [
        ("dtype", 1, "int64"),
        ("shape", 2, "Shape"),
        ("content", 4, "bytes"),
        ("texts", 8, ["bytes"]),
    ],
    "Shape": [("lengths", 2, ["Length"])],
    "Length": [("size", 1, "int64")],
}
# The server looks at the signature alone.
_MODEL = "translator"


def pack_request(signature, inputs):
    """Returns the bytes of one PredictionLog.

    Args:
        signature: name of the signature.
        inputs: dict, name to pair of the type's name and the value.
    """
    log = message_class(_MESSAGES, "PredictionLog")()
    request = log.predict_log.request
    request.model_spec.name = _MODEL
    request.model_spec.signature_name = signature
    for name, (dtype, value) in inputs.items():
        _fill(request.inputs.add(key=name).value, as_array(value, dtype), dtype)
    return log.SerializeToString()


def unpack_request(record):
    """Returns a signature's name and its inputs, a dict of arrays.

    Args:
        record: bytes of one PredictionLog, of types known here.

    Raises:
        ValueError: it is none.
    """
    kind = message_class(_MESSAGES, "PredictionLog")
    try:
        request = kind.FromString(record).predict_log.request
    except Exception as error:
        raise ValueError(f"it is no PredictionLog ({error})") from error
    if not request.model_spec.signature_name:
        raise ValueError("it asks for no signature")
    inputs = {each.key: _array(each.value) for each in request.inputs}
    return request.model_spec.signature_name, inputs


def _fill(tensor, array, dtype):
    tensor.dtype = type_number(dtype)
    for size in array.shape:
        tensor.shape.lengths.add(size=size)
    if dtype == "string":
        tensor.texts.extend(array.ravel().tolist())
    else:
        tensor.content = array.tobytes()


def _array(tensor):
    shape = [length.size for length in tensor.shape.lengths]
    dtype = type_name(tensor.dtype)
    if dtype != "string":
        return np.frombuffer(tensor.content, dtype).reshape(shape)
    if len(tensor.texts) != math.prod(shape):
        raise ValueError("its texts do not fill their shape")
    return np.array(list(tensor.texts), object).reshape(shape)
