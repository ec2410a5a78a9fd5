"""The messages against the classes that TensorFlow Serving's are made of."""

import numpy as np
import pytest
import tensorflow as tf

from export.remote.served_model import ServedModel
from export.server_runtime.predict_messages import (
    pack_predict_request,
    unpack_predict_response,
)
from tests.export.remote.fake_serving import as_proto_field

predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")

ARRAYS = {
    "text": np.array([[b"c\xc3\xa9", b""], [b"\x00", b"d"]], object),
    "float": np.linspace(-1, 1, 12, dtype="float32").reshape(2, 3, 2),
    "bool": np.array([True, False, True]),
    "none": np.zeros((0, 4), "float32"),
    "same": np.full((5,), 2.5, "float32"),
}


def response(tensors):
    made = predict_pb2.PredictResponse()
    for name, tensor in tensors.items():
        made.outputs[name].CopyFrom(tensor)
    return made.SerializeToString()


@pytest.mark.parametrize(
    "model",
    [
        ServedModel("m"),
        ServedModel("m", version=12),
        ServedModel("m", label="stable"),
    ],
)
def test_requests(model):
    texts = ["a", "", "é\U0001f600"]
    request = predict_pb2.PredictRequest.FromString(
        pack_predict_request(model, "align", texts)
    )
    spec = request.model_spec
    assert (spec.name, spec.signature_name) == ("m", "align")
    assert spec.HasField("version") == (model.version is not None)
    assert spec.version.value == (model.version or 0)
    assert spec.version_label == (model.label or "")
    assert list(request.inputs) == ["text"]
    tensor = tf.make_ndarray(request.inputs["text"])
    assert tensor.tolist() == [text.encode() for text in texts]


@pytest.mark.parametrize("proto", [tf.make_tensor_proto, as_proto_field])
def test_responses(proto):
    tensors = {name: proto(array) for name, array in ARRAYS.items()}
    outputs = unpack_predict_response(response(tensors))
    assert outputs.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert outputs[name].dtype == array.dtype
        assert np.array_equal(outputs[name], array)


def test_other_types_are_left_out():
    tensors = {"bytes": tf.make_tensor_proto(np.zeros((2, 2), np.uint8))}
    assert unpack_predict_response(response(tensors)) == {}


def test_tensors_that_do_not_fill_their_shape_are_refused():
    tensor = as_proto_field(ARRAYS["float"])
    tensor.tensor_shape.dim[0].size = 1
    with pytest.raises(ValueError, match="12 values for 6 places"):
        unpack_predict_response(response({"float": tensor}))
    tensor.tensor_shape.dim[0].size = -1
    with pytest.raises(ValueError, match="a tensor of shape"):
        unpack_predict_response(response({"float": tensor}))
    tensor.tensor_shape.dim[0].size = 2
    tensor.ClearField("float_val")
    with pytest.raises(ValueError, match="0 values for 12 places"):
        unpack_predict_response(response({"float": tensor}))
    tensor.tensor_content = b"\0\0\0"
    with pytest.raises(ValueError):
        unpack_predict_response(response({"float": tensor}))


@pytest.mark.parametrize("shape", [[1 << 29], [1 << 40], [1 << 62, 1 << 62]])
def test_a_few_bytes_do_not_become_gigabytes(shape):
    proto = tf.make_tensor_proto([1.0])
    del proto.tensor_shape.dim[:]
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    with pytest.raises(ValueError, match="1 values for"):
        unpack_predict_response(response({"score": proto}))
