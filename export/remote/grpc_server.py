"""TensorFlow Serving's gRPC interface, asked without tensorflow."""

import re

import grpc

from export.errors import InputError
from export.remote.served_model import (
    LONGEST_ANSWER,
    failed,
    refused,
    timed_out,
    unknown_model,
    unreachable,
    unreadable,
)
from export.server_runtime.predict_messages import (
    pack_predict_request,
    unpack_predict_response,
)

_METHOD = "/tensorflow.serving.PredictionService/Predict"
# gRPC's own limit of 4 MB is less than the alignments of a batch may take.
_OPTIONS = [("grpc.max_receive_message_length", LONGEST_ANSWER)]
_WRONG_REQUEST = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
)
_BUSY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


class GrpcServer:
    """One model of a server, over a connection without encryption.

    Args:
        target: such as "host:8500".
        model: ServedModel.
        timeout_seconds: for an answer to come whole.

    Raises:
        InputError: the target is no host and port.
    """

    def __init__(self, target, model, timeout_seconds):
        if not re.fullmatch(r"[^\s/]+:\d{1,5}", target):
            raise InputError(
                f"--grpc={target} is not an address; it must be like host:8500."
            )
        self._target = target
        self._model = model
        self._timeout = timeout_seconds
        # Bytes in, bytes out: what they hold is read here.
        self._predict = grpc.insecure_channel(
            target, options=_OPTIONS
        ).unary_unary(_METHOD)

    def ask(self, signature, texts):
        """Asks about texts; see `RestServer.ask`.

        Returns:
            dict, output's name to array; text as objects of bytes.
        """
        request = pack_predict_request(self._model, signature, texts)
        try:
            answer = self._predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise self._error(error, signature) from None
        try:
            return unpack_predict_response(answer)
        except ValueError as error:
            raise unreadable(self._target, error) from None

    def _error(self, error, signature):
        code = error.code()
        reason = f"{code.name}, {error.details()}"
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return timed_out(self._target, self._timeout)
        if code in _BUSY:
            return unreachable(self._target, reason)
        if code is grpc.StatusCode.NOT_FOUND:
            return unknown_model(self._target, self._model, reason)
        if code in _WRONG_REQUEST:
            return refused(self._target, self._model, signature, reason)
        return failed(self._target, reason)
