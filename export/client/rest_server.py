"""Sends requests to TensorFlow Serving over REST."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import urllib.parse

from export.client.remote_backend import MAX_RESPONSE_BYTES, ModelServer
from export.common.errors import InputError

_CONNECTIONS = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}
_ERROR_TYPES = {
    400: "refused",
    404: "unknown",
    **dict.fromkeys((429, 502, 503, 504), "busy"),
}


class RestServer(ModelServer):
    """One served model over REST, with a new connection for each request.

    An open connection may be closed by the server. Raises InputError unless
    `url` is like "http://host:8501", plus a path prefix if the server has one.
    """

    def __init__(self, url, model, timeout_seconds):
        super().__init__(url, model, timeout_seconds)
        self._url = _parse_url(url)
        prefix = self._url.path.rstrip("/")
        self._path = f"{prefix}{_model_path(model)}:predict"

    def predict(self, signature, inputs):
        """Runs a signature, see `ModelServer.predict`; outputs are lists."""
        request = {"signature_name": signature, "inputs": inputs}
        body = json.dumps(request).encode("utf-8")
        try:
            status, response = _run_with_timeout(
                self._timeout, lambda: self._post(body)
            )
        except TimeoutError:
            raise self.error("timeout", f"{self._timeout:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            raise self.error("unreachable", reason) from error
        try:
            content = json.loads(response)
            outputs = content.get("outputs")
            if status == http.client.OK and isinstance(outputs, dict):
                return outputs
            reason = content["error"]
        except (ValueError, AttributeError, KeyError, RecursionError):
            reason = repr(response[:60])
        if status == http.client.OK:
            raise self.error("unreadable", f"no prediction: {reason}")
        error_type = _ERROR_TYPES.get(status, "failed")
        raise self.error(error_type, f"HTTP {status}, {reason}")

    def _post(self, body):
        """Returns the status and the content of the response."""
        connection = _CONNECTIONS[self._url.scheme](
            self._url.hostname, self._url.port, timeout=self._timeout
        )
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            content = response.read(MAX_RESPONSE_BYTES + 1)
        if len(content) > MAX_RESPONSE_BYTES:
            raise self.error("unreadable", f"over {MAX_RESPONSE_BYTES:,} bytes")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return response.status, content


def _model_path(model):
    path = f"/v1/models/{urllib.parse.quote(model.name, safe='')}"
    if model.version is not None:
        return f"{path}/versions/{model.version}"
    if model.label is not None:
        return f"{path}/labels/{urllib.parse.quote(model.label, safe='')}"
    return path


def _parse_url(url):
    try:
        parsed = urllib.parse.urlsplit(url)
        is_valid = parsed.scheme in _CONNECTIONS and parsed.hostname
        parsed.port  # noqa: B018  # raises ValueError if it is not a number
        # HTTP request lines are ASCII.
        (parsed.hostname or "").encode("idna")
        parsed.path.encode("ascii")
    except ValueError:
        is_valid = False
    if not is_valid or parsed.query or parsed.fragment or parsed.username:
        raise InputError(
            f"Expected an address like http://host:8501 as --url, got {url}."
        )
    return parsed


def _run_with_timeout(seconds, function):
    """Returns the function's result, or raises TimeoutError."""
    # In a thread: a socket limits each operation only, so a server that sends
    # one byte at a time or repeats "100 Continue" would exceed the time limit.
    result = concurrent.futures.Future()

    def run():
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result(seconds)
