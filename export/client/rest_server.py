"""Asks TensorFlow Serving over REST, with the standard library."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import urllib.parse
from socket import SHUT_RDWR

from export.client.served_model import MAX_ANSWER_BYTES, ModelServer
from export.common.errors import InputError

_CONNECTIONS = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}
_KINDS = {
    400: "refused",
    404: "unknown",
    **dict.fromkeys((429, 502, 503, 504), "busy"),
}


class RestServer(ModelServer):
    """One model of a server.

    Every request has a connection of its own: a kept one may be closed.

    Args:
        url: such as "http://host:8501"; a path in it comes before the
            server's own.
        model: ServedModel.
        timeout_seconds: for the whole of an answer.

    Raises:
        InputError: the address is not valid.
    """

    def __init__(self, url, model, timeout_seconds):
        super().__init__(url, model, timeout_seconds)
        self._url = _parse(url)
        self._path = f"{self._url.path.rstrip('/')}{model.path()}:predict"

    def ask(self, signature, texts):
        """See the base class; outputs are nested lists."""
        request = {"signature_name": signature, "inputs": {"text": texts}}
        status, answer = self._post(json.dumps(request).encode("utf-8"))
        try:
            content = json.loads(answer)
            if status == http.client.OK and isinstance(
                content["outputs"], dict
            ):
                return content["outputs"]
            reason = content["error"]
        except (ValueError, TypeError, KeyError, RecursionError):
            reason = repr(answer[:60])
        if status == http.client.OK:
            raise self.error("unreadable", f"no prediction: {reason}")
        kind = _KINDS.get(status, "failed")
        raise self.error(kind, f"HTTP {status}, {reason}")

    def _post(self, body):
        """Returns the status and the answer's bytes."""
        connection = _CONNECTIONS[self._url.scheme](
            self._url.hostname, self._url.port, timeout=self._timeout
        )
        try:
            return _within(
                self._timeout, connection, lambda: self._read(connection, body)
            )
        except TimeoutError:
            raise self.error("late", f"{self._timeout:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            raise self.error("unreachable", reason) from error

    def _read(self, connection, body):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        answer = response.read(MAX_ANSWER_BYTES + 1)
        if len(answer) > MAX_ANSWER_BYTES:
            raise self.error("unreadable", f"over {MAX_ANSWER_BYTES:,} bytes")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return response.status, answer


def _parse(url):
    try:
        address = urllib.parse.urlsplit(url)
        is_valid = address.scheme in _CONNECTIONS and address.hostname
        address.port  # noqa: B018  # raises where it is no number
        # What a request could not hold.
        (address.hostname or "").encode("idna")
        address.path.encode("ascii")
    except ValueError:
        is_valid = False
    if not is_valid or address.query or address.fragment or address.username:
        raise InputError(
            f"--url={url} is not an address; it must be like http://host:8501."
        )
    return address


def _within(seconds, connection, read):
    """Returns what `read` returns, or raises TimeoutError.

    The time limit of a socket holds for each operation: a server that sends
    a byte at a time, or one "100 Continue" after the other, or a name that is
    never resolved would not end. So a thread reads, and is abandoned when it
    is late.
    """
    result = concurrent.futures.Future()
    is_late, sockets = threading.Event(), []
    # Or a request after the end would connect once more.
    connection.auto_open = False

    def run():
        try:
            connection.connect()
            # The connection drops it before an endless answer ends.
            sockets.append(connection.sock)
            if not is_late.is_set():
                result.set_result(read())
        except BaseException as error:
            result.set_exception(error)
        finally:
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    try:
        return result.result(seconds)
    finally:
        is_late.set()
        for socket in sockets:
            # It ends what waits there, unless that has ended.
            with contextlib.suppress(OSError, ValueError):
                socket.shutdown(SHUT_RDWR)
