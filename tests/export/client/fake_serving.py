"""TensorFlow Serving's two interfaces over a real session, and bad ones."""

import concurrent.futures
import contextlib
import http.server
import json
import socket
import socketserver
import threading

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from tests.export.server import Refused

# What is served: versions and labels of the model "translator".
_PATHS = [
    f"/v1/models/translator{part}:predict"
    for part in ("", "/versions/1", "/labels/stable")
]
_SPECS = [
    ("translator", 0, ""),
    ("translator", 1, ""),
    ("translator", 0, "stable"),
]


class Backend:
    """Answers requests from an export in the serving process.

    Attributes:
        sizes: number of texts of each request.
    """

    def __init__(self, server, path):
        self._server, self._path = server, path
        self.sizes = []

    def run(self, signature, inputs):
        self.sizes.append(len(inputs["text"]))
        return self._server.run(self._path, signature, **inputs).arrays


@contextlib.contextmanager
def _running(server):
    with server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def rest(backend):
    """Gives the address of the REST interface."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = _rest_answer(backend, self.path, body)
            content = json.dumps(answer).encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with _running(server) as address:
        yield f"http://{address}"


def _rest_answer(backend, path, body):
    if path not in _PATHS:
        return 404, {"error": f"Servable not found for request: POST {path}"}
    request = json.loads(body)
    try:
        outputs = backend.run(request["signature_name"], request["inputs"])
    except Refused as error:
        return 400, {"error": str(error)}
    for name, array in outputs.items():
        if array.dtype == object:
            array = np.vectorize(bytes.decode, otypes=[object])(array)
        outputs[name] = array.tolist()
    return 200, {"outputs": outputs}


@contextlib.contextmanager
def grpc_interface(backend):
    """Gives host and port of the gRPC interface."""

    def predict(content, context):
        request = predict_pb2.PredictRequest.FromString(content)
        spec = request.model_spec
        wanted = spec.name, spec.version.value, spec.version_label
        if wanted not in _SPECS:
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
        inputs = {
            name: tf.make_ndarray(tensor).tolist()
            for name, tensor in request.inputs.items()
        }
        try:
            outputs = backend.run(spec.signature_name, inputs)
        except Refused as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for name, array in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(array))
        return response.SerializeToString()

    with grpc_server(predict) as target:
        yield target


@contextlib.contextmanager
def grpc_server(predict):
    """Gives host and port; `predict` is of the request's bytes to bytes."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(predict)
    service = "tensorflow.serving.PredictionService"
    handlers = grpc.method_handlers_generic_handler(
        service, {"Predict": handler}
    )
    server.add_generic_rpc_handlers([handlers])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def raw_server(content, part=b""):
    """Gives host and port of a server that sends bytes to any request.

    Args:
        content: bytes, or None for a server that never answers.
        part: bytes that follow 20 times a second, without end.
    """
    closing = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            connection = self.request
            connection.settimeout(5)
            if content is None:
                closing.wait()
                return
            with contextlib.suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(content)
                while part and not closing.wait(0.05):
                    connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
                # Closing with a part of the request unread would take back
                # what the client has not read yet.
                while connection.recv(1 << 16):
                    pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with _running(server) as address:
        try:
            yield address
        finally:
            closing.set()


def http_answer(body, status="200 OK"):
    """Returns the bytes of an HTTP answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
