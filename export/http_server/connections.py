"""HTTP connections that nobody can hold open, with errors in JSON."""

import functools
import json
import typing

import httptools
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

if typing.TYPE_CHECKING:
    from export.http_server.app import ServerLimits

# Beyond them, that one is closed which has sent no complete request for
# longest. Many systems allow a process 1024 open files.
_MAX_CONNECTIONS = 900
_MAX_HEADER_BYTES = 65_536
# Time of a half-sent request when the server stops, and of a client to read
# its last response.
_LAST_SECONDS = 2.0
_BUSY = JSONResponse(
    {"error": "Too many requests are in progress."},
    503,
    {"Retry-After": "1", "Connection": "close"},
)
# Web pages of any origin may ask, as with LibreTranslate.
_ANY_ORIGIN = [("Access-Control-Allow-Origin", "*")]


def create_server(
    application: ASGIApp, limits: "ServerLimits"
) -> uvicorn.Server:
    """Returns the server of an ASGI application with limits.

    Without `limits.any_origin` browsers refuse pages of other origins.
    """
    config = uvicorn.Config(
        application,
        http=functools.partial(_LimitedProtocol, limits, {}),
        ws="none",
        log_level="warning",
        headers=_ANY_ORIGIN if limits.any_origin else [],
    )
    return uvicorn.Server(config)


class _LimitedProtocol(HttpToolsProtocol):
    """Limits the time and the bytes of requests, which uvicorn does not.

    A complete request must come within `limits.timeout` seconds of the start of
    its connection or of the response before; a response must be read in time.
    `waiting` is a dict whose keys are the connections that wait for their
    client, longest first.
    """

    def __init__(self, limits, waiting, **arguments):
        super().__init__(**arguments)
        self._waiting = waiting
        self._limits = limits
        self._seconds = limits.timeout
        self._timer = None
        self._num_bytes = 0
        self._is_in_message = self._is_in_header = False

    def connection_made(self, transport):
        super().connection_made(transport)
        if len(self.connections) > _MAX_CONNECTIONS:
            self._make_room()
        self._start_timer()

    def connection_lost(self, error):
        super().connection_lost(error)
        self._timer.cancel()
        self._waiting.pop(self, None)

    def data_received(self, data):
        self._unset_keepalive_if_required()
        self._num_bytes += len(data)
        while data:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = self._decline_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._send_error(400, "The request is no valid HTTP.")
                break
        if not self._is_in_message:
            self._num_bytes = 0
        elif self._num_bytes > self._max_bytes() + _MAX_HEADER_BYTES:
            self._close(413, "The request is too long.")

    def _max_bytes(self):
        if self.url.partition(b"?")[0] == b"/translate_file":
            return self._limits.max_file_bytes
        return self._limits.max_bytes

    def on_message_begin(self):
        super().on_message_begin()
        self._is_in_message = self._is_in_header = True

    def on_headers_complete(self):
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        self._is_in_header = False

    def on_message_complete(self):
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        self._is_in_message = False
        if self._is_busy:
            self._start_timer()

    def on_response_complete(self):
        super().on_response_complete()
        self._start_timer()

    def pause_writing(self):
        super().pause_writing()
        self._start_timer()

    def resume_writing(self):
        super().resume_writing()
        self._start_timer()

    def shutdown(self):
        super().shutdown()
        self._seconds = _LAST_SECONDS
        if not self._is_busy:
            self._start_timer()

    @property
    def _is_busy(self):
        """Whether a complete request awaits a response that will be read."""
        cycle = self.cycle
        return not (
            cycle is None
            or cycle.more_body
            or cycle.response_complete
            or self.flow.write_paused
        )

    def _decline_upgrade(self, data):
        """Returns a request that offers HTTP/2, as Java's do, without that.

        The parser ended at its header, and would lose the rest, `data`.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._send_error(405, "This server is no proxy.")
            return b""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (method, self.url, version)]
        lines += [
            b"%s: %s" % header
            for header in self.headers
            if header[0] != b"upgrade"
        ]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", data])

    def _make_room(self):
        """Closes the connection that waits for its client longest."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            self.app = _BUSY
            return
        self.connections.discard(oldest)
        oldest._close(503, "There are too many connections.")

    def _start_timer(self):
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(self._seconds, self._end)
        self._waiting.pop(self, None)
        if not (self._is_busy or self.transport.is_closing()):
            self._waiting[self] = None

    def _end(self):
        if self.transport.is_closing() or self.flow.write_paused:
            # The client does not read its response.
            self.transport.abort()
        elif self._is_busy:
            self._start_timer()
        else:
            self._close(408, "The request came too slowly.")

    def _close(self, status, message):
        """Closes the connection, with an error if a request has begun."""
        self._seconds = _LAST_SECONDS
        has_begun = self._is_in_message and not self.transport.is_closing()
        if has_begun and (
            self._is_in_header or not self.cycle.response_started
        ):
            self._send_error(status, message)
        self.transport.close()
        self._start_timer()

    def _send_error(self, status, message):
        body = json.dumps({"error": message}).encode()
        headers = {
            "content-type": "application/json",
            "content-length": len(body),
            "connection": "close",
        }
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        self.transport.write(
            b"".join(
                [STATUS_LINE[status], "".join(lines).encode(), b"\r\n", body]
            )
        )
        self.transport.close()
