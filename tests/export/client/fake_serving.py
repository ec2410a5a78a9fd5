"""TensorFlow Serving's two interfaces over a real session, and bad ones."""

import concurrent.futures
import contextlib
import http.server
import json
import re
import socket
import threading

import grpc
import numpy as np

from tests.export.server import Refused

NAME, VERSIONS, LABELS = "translator", {1}, {"stable": 1}
_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?:predict"
)


class Backend:
    """What both interfaces ask: an export in the serving process.

    Attributes:
        sizes: how many texts each request had.
    """

    def __init__(self, server, path):
        self._server, self._path = server, path
        # The process answers one at a time.
        self._lock = threading.Lock()
        self.sizes = []

    def run(self, signature, inputs):
        with self._lock:
            self.sizes.append(len(inputs.get("text", ())))
            return self._server.run(self._path, signature, **inputs).arrays


def is_served(name, version, label):
    return (
        name == NAME
        and (version is None or int(version) in VERSIONS)
        and (label is None or label in LABELS)
    )


@contextlib.contextmanager
def rest(backend):
    """Gives the address of the REST interface."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._send(*_rest_answer(backend, self.path, body))

        def _send(self, status, answer):
            content = json.dumps(answer).encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _rest_answer(backend, path, body):
    found = _PATH.fullmatch(path)
    if not found:
        return 404, {"error": f"Malformed request: POST {path}"}
    if not is_served(**found.groupdict()):
        return 404, {"error": "Servable not found for request: Latest(x)"}
    request = json.loads(body)
    try:
        outputs = backend.run(request["signature_name"], request["inputs"])
    except Refused as error:
        return 400, {"error": str(error)}
    outputs = {name: _plain(array) for name, array in outputs.items()}
    return 200, {"outputs": outputs}


def _plain(array):
    if array.dtype == object:
        array = np.vectorize(bytes.decode, otypes=[object])(array)
    return array.tolist()


@contextlib.contextmanager
def grpc_interface(backend):
    """Gives host and port of the gRPC interface."""
    from tensorflow_serving.apis import predict_pb2

    def predict(request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        label = spec.version_label or None
        if not is_served(spec.name, version, label):
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
        inputs = {
            key: list(tensor.string_val)
            for key, tensor in request.inputs.items()
        }
        try:
            outputs = backend.run(spec.signature_name, inputs)
        except Refused as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for name, array in outputs.items():
            response.outputs[name].CopyFrom(as_proto_field(array))
        return response

    handler = grpc.unary_unary_rpc_method_handler(
        predict,
        predict_pb2.PredictRequest.FromString,
        predict_pb2.PredictResponse.SerializeToString,
    )
    with grpc_server({"Predict": handler}) as target:
        yield target


@contextlib.contextmanager
def grpc_server(handlers):
    """Gives host and port of a server with these methods."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                "tensorflow.serving.PredictionService", handlers
            )
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def as_proto_field(array):
    """Returns a TensorProto with typed fields, as the server writes it."""
    import tensorflow as tf

    proto = tf.make_tensor_proto(array, shape=array.shape)
    if array.dtype != object:
        proto.ClearField("tensor_content")
        field = {"f": proto.float_val, "i": proto.int_val, "b": proto.bool_val}
        del field[array.dtype.kind][:]
        field[array.dtype.kind].extend(array.ravel().tolist())
    return proto


@contextlib.contextmanager
def answering(content, *, times=None):
    """Gives host and port of a server that sends bytes whatever is asked.

    Args:
        content: bytes, or None for a server that never answers.
        times: connections that it closes at once before it sends.
    """
    closing = threading.Event()
    left = [times or 0]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)

        def serve():
            connections = []
            while not closing.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                connection.settimeout(5)
                if left[0]:
                    left[0] -= 1
                    connection.close()
                elif content is None:
                    connections.append(connection)
                else:
                    with connection, contextlib.suppress(OSError):
                        connection.recv(1 << 16)
                        connection.sendall(content)
                        connection.shutdown(socket.SHUT_WR)
                        # Closed with a part of the request unread, it would
                        # take back what the client has not read yet.
                        while connection.recv(1 << 16):
                            pass
            for connection in connections:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            closing.set()
            thread.join()


@contextlib.contextmanager
def dripping(first, part):
    """Gives host and port of a server that never comes to an end.

    Args:
        first: bytes that it sends at once.
        part: bytes that follow, 20 times a second.
    """
    closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                connection.recv(1 << 16)
                connection.sendall(first)
                while not closing.wait(0.05):
                    connection.sendall(part)
            # Who asked has hung up; the address stays until it is told to go.
            closing.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            closing.set()
            thread.join()


def http_answer(body, status="200 OK"):
    """Returns the bytes of an HTTP answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
