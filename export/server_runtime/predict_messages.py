"""The messages of TensorFlow Serving's Predict, without tensorflow."""

import functools
import math

import numpy as np

from export.server_runtime.saved_model import message_class
from export.server_runtime.tensors import as_array, type_name, type_number

# The parts used of tensorflow_serving/apis/predict.proto and model.proto and
# of tensorflow/core/framework/tensor.proto. Packed floats and booleans are
# bytes on the wire.
_MESSAGES = {
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
        ("texts", 8, ["bytes"]),
        ("booleans", 11, "bytes"),
    ],
    "Shape": [("lengths", 2, ["Length"])],
    "Length": [("size", 1, "int64")],
}
_STRING = 7
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
    tensor = request.inputs.add(key="text").value
    tensor.dtype = _STRING
    tensor.shape.lengths.add(size=len(texts))
    tensor.texts.extend(text.encode("utf-8") for text in texts)
    return request.SerializeToString()


def unpack_predict_response(content):
    """Returns the outputs of a PredictResponse: dict, name to array.

    Text is an object array of bytes. Outputs of other types than string,
    float32 and bool are left out.

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


def _array(tensor):
    shape = [length.size for length in tensor.shape.lengths]
    if min(shape, default=0) < 0:
        raise ValueError(f"a tensor of shape {shape}")
    dtype = type_name(tensor.dtype)
    if dtype == "string":
        values = np.array(list(tensor.texts), object)
    elif dtype in _VALUES:
        content = tensor.content or getattr(tensor, _VALUES[dtype])
        values = np.frombuffer(content, dtype)
    else:
        return None
    return _filled(values, math.prod(shape)).reshape(shape)


def _filled(values, count):
    """Repeats the last value, which a TensorProto may leave out."""
    missing = count - len(values)
    too_many = count > _MOST_VALUES
    if too_many or missing < 0 or (missing and not len(values)):
        raise ValueError(f"{len(values)} values for {count} places")
    return np.concatenate([values, np.repeat(values[-1:], missing)])


# The parts that a request has of tensorflow_serving/apis/prediction_log.proto
# and predict.proto, and of tensorflow/core/framework/tensor.proto.
_LOG_MESSAGES = {
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
    log = message_class(_LOG_MESSAGES, "PredictionLog")()
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
    kind = message_class(_LOG_MESSAGES, "PredictionLog")
    try:
        request = kind.FromString(record).predict_log.request
    except Exception as error:
        raise ValueError(f"it is no PredictionLog ({error})") from error
    if not request.model_spec.signature_name:
        raise ValueError("it asks for no signature")
    inputs = {each.key: _request_array(each.value) for each in request.inputs}
    return request.model_spec.signature_name, inputs


def _fill(tensor, array, dtype):
    tensor.dtype = type_number(dtype)
    for size in array.shape:
        tensor.shape.lengths.add(size=size)
    if dtype == "string":
        tensor.texts.extend(array.ravel().tolist())
    else:
        tensor.content = array.tobytes()


def _request_array(tensor):
    shape = [length.size for length in tensor.shape.lengths]
    dtype = type_name(tensor.dtype)
    if dtype != "string":
        return np.frombuffer(tensor.content, dtype).reshape(shape)
    if len(tensor.texts) != math.prod(shape):
        raise ValueError("its texts do not fill their shape")
    return np.array(list(tensor.texts), object).reshape(shape)
