"""Sends JSON to an HTTP server, within a time limit."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import typing
import urllib.parse
from collections.abc import Iterable, Mapping

from export.common.errors import InputError

# In bytes; far more than the alignments of a batch take.
MAX_RESPONSE_BYTES = 1 << 30
_CONNECTIONS = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}


class HttpResponse(typing.NamedTuple):
    """Status, headers (see `http.client`) and content, bytes, of a response."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes


class LongResponseError(ValueError):
    """A response exceeds MAX_RESPONSE_BYTES."""


def parse_address(
    url: str, flag: str, example: str
) -> urllib.parse.SplitResult:
    """Returns the parts of an http or https URL; InputError for others.

    `flag` and `example` are for the message.
    """
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
            f"Expected an address like {example} as --{flag}, got {url}."
        )
    return parsed


def post_json(
    address: urllib.parse.SplitResult,
    path: str,
    value: typing.Any,
    timeout: float,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
) -> HttpResponse:
    """Posts a value to a path; returns the HttpResponse.

    `address` is from `parse_address`, and its path comes first; `timeout` in
    seconds. With a new connection, since a server may close an open one. Raises
    TimeoutError, OSError, HTTPException, or LongResponseError.
    """
    path = address.path.rstrip("/") + path
    headers = {"Content-Type": "application/json", **dict(headers)}
    body = json.dumps(value).encode("utf-8")

    def post():
        connection = _CONNECTIONS[address.scheme](
            address.hostname, address.port, timeout=timeout
        )
        with contextlib.closing(connection):
            connection.request("POST", path, body, headers)
            # Otherwise a response that is cut short stays open.
            with connection.getresponse() as response:
                content = response.read(MAX_RESPONSE_BYTES + 1)
                missing = response.length
        if len(content) > MAX_RESPONSE_BYTES:
            raise LongResponseError(f"over {MAX_RESPONSE_BYTES:,} bytes")
        if missing:
            raise http.client.IncompleteRead(b"", missing)
        return HttpResponse(response.status, response.headers, content)

    return _run_with_timeout(timeout, post)


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
