"""Sends requests to TensorFlow Serving over gRPC."""

import math
import re

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from export.client.remote_backend import ModelServer, ServedModel
from export.common.errors import InputError
from export.common.http_json import MAX_RESPONSE_BYTES

# The alignments of a batch may exceed gRPC's default limit of 4 MB.
_OPTIONS = [("grpc.max_receive_message_length", MAX_RESPONSE_BYTES)]
_ERROR_TYPES = {
    grpc.StatusCode.UNAVAILABLE: "unreachable",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "busy",
    grpc.StatusCode.NOT_FOUND: "unknown",
    grpc.StatusCode.INVALID_ARGUMENT: "refused",
    grpc.StatusCode.FAILED_PRECONDITION: "refused",
}
# A few bytes of a response can declare any number of values.
_MAX_VALUES = 1 << 28


class GrpcServer(ModelServer):
    """One served model, over an unencrypted gRPC connection.

    Raises InputError unless the address is like "host:8500".
    """

    def __init__(
        self, address: str, model: ServedModel, timeout_seconds: float
    ):
        if not re.fullmatch(r"[^\s/]+:\d{1,5}", address):
            raise InputError(
                f"Expected an address like host:8500 as --grpc, got {address}."
            )
        super().__init__(address, model, timeout_seconds)
        channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def predict(
        self, signature: str, inputs: dict[str, list]
    ) -> dict[str, np.ndarray]:
        """Runs a signature, see `ModelServer.predict`."""
        request = predict_pb2.PredictRequest()
        spec = request.model_spec
        spec.name, spec.signature_name = self._model.name, signature
        if self._model.version is not None:
            spec.version.value = self._model.version
        if self._model.label is not None:
            spec.version_label = self._model.label
        for name, value in inputs.items():
            tensor = tf.make_tensor_proto(value, tf.string)
            request.inputs[name].CopyFrom(tensor)
        try:
            response = self._stub.Predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code = error.code()
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise self.error("timeout", f"{self._timeout:g} s") from None
            reason = f"{code.name}, {error.details()}"
            raise self.error(_ERROR_TYPES.get(code, "failed"), reason) from None
        try:
            return {
                name: _to_array(each) for name, each in response.outputs.items()
            }
        except (TypeError, ValueError) as error:
            raise self.error("unreadable", error) from None


def _to_array(tensor):
    shape = [axis.size for axis in tensor.tensor_shape.dim]
    if min(shape, default=0) < 0 or math.prod(shape) > _MAX_VALUES:
        raise ValueError(f"a tensor of shape {shape}")
    return tf.make_ndarray(tensor)
