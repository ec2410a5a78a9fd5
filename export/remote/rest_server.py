"""TensorFlow Serving's REST interface, asked with the standard library."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import urllib.parse
from socket import SHUT_RDWR

from export.errors import InputError
from export.remote.served_model import (
    LONGEST_ANSWER,
    Unavailable,
    failed,
    one_line,
    refused,
    timed_out,
    unknown_model,
    unreachable,
    unreadable,
)

_CONNECTIONS = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}
_PIECE = 1 << 16
# Too many requests, and three ways to say: not now.
_BUSY = (429, 502, 503, 504)


class RestServer:
    """One model of a server.

    Every request has a connection of its own, so that none is found closed.

    Args:
        url: such as "http://host:8501"; a path in it is put before the
            server's own.
        model: ServedModel.
        timeout_seconds: for an answer to come whole.

    Raises:
        InputError: the address is none.
    """

    def __init__(self, url, model, timeout_seconds):
        self._address = _checked(url)
        self._url = url
        self._model = model
        self._timeout = timeout_seconds

    def ask(self, signature, texts):
        """Asks about texts.

        Args:
            signature: name of the signature, which has one input, `text`.
            texts: list of str.

        Returns:
            dict, output's name to nested lists of str, float or bool.

        Raises:
            Unavailable: the server cannot be reached, or is too busy.
            InputError: it refuses, fails, is late or is no such server.
        """
        request = {"signature_name": signature, "inputs": {"text": texts}}
        body = json.dumps(request).encode("utf-8")
        status, answer = self._answer(body)
        if status != http.client.OK:
            raise self._error(status, answer, signature)
        try:
            outputs = json.loads(answer)["outputs"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise unreadable(
                self._url, f"what is no prediction in JSON: {answer[:60]!r}"
            ) from None
        if not isinstance(outputs, dict):
            raise unreadable(self._url, f"{signature} with one output alone")
        return outputs

    def _answer(self, body):
        """Returns the status and the body's bytes."""
        connection = _CONNECTIONS[self._address.scheme](
            self._address.hostname, self._address.port, timeout=self._timeout
        )
        path = f"{self._address.path.rstrip('/')}{self._model.path()}:predict"
        try:
            return _within(
                self._timeout,
                connection,
                lambda: self._ask(connection, path, body),
            )
        except TimeoutError:
            raise timed_out(self._url, self._timeout) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            raise unreachable(self._url, reason) from error

    def _ask(self, connection, path, body):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = bytearray()
        while part := response.read1(_PIECE):
            answer += part
            if len(answer) > LONGEST_ANSWER:
                raise unreadable(
                    self._url, f"more than {LONGEST_ANSWER:,} bytes"
                )
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return response.status, bytes(answer)

    def _error(self, status, body, signature):
        reason = f"HTTP {status}, {_message(body)}"
        if status in _BUSY:
            return Unavailable(f"{self._url} is too busy: {one_line(reason)}.")
        if status == http.client.NOT_FOUND:
            return unknown_model(self._url, self._model, reason)
        if status == http.client.BAD_REQUEST:
            return refused(self._url, self._model, signature, reason)
        return failed(self._url, reason)


def _checked(url):
    try:
        address = urllib.parse.urlsplit(url)
        good = address.scheme in _CONNECTIONS and address.hostname
        address.port  # noqa: B018  # raises where it is no number
        # What a request could not hold.
        (address.hostname or "").encode("idna")
        address.path.encode("ascii")
    except ValueError:
        good = False
    if not good or address.query or address.fragment or address.username:
        raise InputError(
            f"--url={url} is not an address; it must be like http://host:8501."
        )
    return address


def _within(seconds, connection, ask):
    """Returns what `ask` returns, or raises what it raises, in time.

    A time limit of the socket holds for each of its operations: a server that
    sends a byte at a time, or one "100 Continue" after the other, or a name
    that is never found would not end. So a thread asks, and is left alone
    where it is late.
    """
    found = concurrent.futures.Future()
    late, sockets = threading.Event(), []
    # Or a request after the end would connect once more.
    connection.auto_open = False

    def run():
        try:
            connection.connect()
            # The connection forgets it before an answer without end ends.
            sockets.append(connection.sock)
            if not late.is_set():
                found.set_result(ask())
        except BaseException as error:
            found.set_exception(error)
        finally:
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    try:
        return found.result(seconds)
    finally:
        late.set()
        for socket in sockets:
            # It ends what waits there, unless that has ended.
            with contextlib.suppress(OSError, ValueError):
                socket.shutdown(SHUT_RDWR)


def _message(body):
    try:
        return json.loads(body)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return repr(body[:60])
