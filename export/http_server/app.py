"""The interfaces of the server: a page, LibreTranslate's, TensorFlow Serving's.

Errors are JSON, {"error": message}, with a status of 400 to 504.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import pathlib
import re
import time
from collections.abc import Mapping

import prometheus_client
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from export.http_server.api_keys import ApiKeys
from export.http_server.fields import RequestError, parse_fields
from export.http_server.libre_translate import LibreTranslate
from export.http_server.model_pool import trim_memory
from export.http_server.model_set import ModelSet
from export.http_server.predictions import format_outputs, parse_prediction
from export.loading import LoadedModel

_PAGE = pathlib.Path(__file__).parent / "page"
_LOGGER = logging.getLogger(__name__)
# What a browser asks before it sends a request of a page of another origin.
_OPTIONS = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "86400",
}
# Requests whose documents are translated at the same time.
_MAX_DOCUMENT_THREADS = 128
# Between two times that freed memory is returned, which takes some 20 ms.
_TRIM_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class ServerLimits:
    """Limits of requests and of their number.

    `max_bytes` is of a request's content, `max_file_bytes` of one with a file,
    `max_texts` the number of texts in a request, `max_batch` and `max_waiting`
    are of a Batcher; `timeout`, and `file_timeout` for files, are in seconds.
    With `any_origin` web pages of other origins may ask.
    """

    max_bytes: int = 1_000_000
    max_file_bytes: int = 20_000_000
    max_texts: int = 256
    max_batch: int = 64
    max_waiting: int = 1024
    timeout: float = 60.0
    file_timeout: float = 600.0
    num_threads: int = 2
    any_origin: bool = False


def create_app(
    models: Mapping[str, LoadedModel],
    limits: ServerLimits | None = None,
    api_keys: ApiKeys | None = None,
) -> Starlette:
    """Returns the ASGI application for models.

    Their names are those of TensorFlow Serving's paths. With `api_keys`, POST
    requests need one as a field `api_key` or in a header "Authorization: Bearer
    KEY"; GET requests, as of /health and /metrics, need none.
    """
    server = _Server(models, limits or ServerLimits(), api_keys)
    paths = {
        "/": ("GET", server.show_page),
        "/docs": ("GET", server.show_description),
        "/health": ("GET", server.report_health),
        "/metrics": ("GET", server.report_metrics),
        **LibreTranslate(server).paths(),
    }
    for name in models:
        path = f"/v1/models/{name}"
        paths[path] = "GET", server.report_status
        predict = functools.partial(server.predict, name)
        paths[f"{path}:predict"] = "POST", predict

    @contextlib.asynccontextmanager
    async def close_at_the_end(_):
        trimming = asyncio.create_task(_trim_memory_regularly())
        yield
        trimming.cancel()
        await asyncio.to_thread(server.close)

    application = Starlette(
        routes=[
            Route(
                path, server.handle(path, function), methods=[method, "OPTIONS"]
            )
            for path, (method, function) in paths.items()
        ],
        lifespan=close_at_the_end,
        exception_handlers={HTTPException: _respond_to_http_error},
    )
    application.router.redirect_slashes = False
    return application


async def _trim_memory_regularly():
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(trim_memory)


async def _respond_to_http_error(request, error):
    """Responds to a path or method that does not exist."""
    return JSONResponse(
        {"error": f"{error.detail}: {request.method} {request.scope['path']}."},
        error.status_code,
        error.headers,
    )


class _Server:
    """The handlers of all paths."""

    def __init__(self, models, limits, api_keys):
        self.models = ModelSet(models, limits)
        self._page = (_PAGE / "index.html").read_text("utf-8")
        for marker, content in {
            "SHARED_STYLE": (_PAGE / "shared.css").read_text("utf-8"),
            "SHARED_SCRIPT": (_PAGE / "shared.js").read_text("utf-8"),
        }.items():
            self._page = self._page.replace(marker, content)
        self.limits = limits
        self._api_keys = api_keys
        self.has_keys = api_keys is not None
        self.document_threads = concurrent.futures.ThreadPoolExecutor(
            _MAX_DOCUMENT_THREADS
        )
        self._metrics = prometheus_client.CollectorRegistry()
        self._requests = prometheus_client.Counter(
            "requests", "Requests.", ["path", "status"], registry=self._metrics
        )
        self._seconds = prometheus_client.Histogram(
            "request_seconds",
            "Seconds until the response.",
            ["path"],
            registry=self._metrics,
        )
        prometheus_client.Gauge(
            "waiting_texts", "Texts that wait.", registry=self._metrics
        ).set_function(lambda: self.models.num_waiting)

    def close(self):
        """Finishes the requests, then ends the threads."""
        self.document_threads.shutdown()
        self.models.close()

    def handle(self, path, function):
        """Returns an endpoint that counts requests and responds to errors."""

        async def respond(request):
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=_OPTIONS)
            started = time.monotonic()
            try:
                response = await function(request)
            except Exception as error:
                status, content, headers = self.explain_error(path, error)
                response = JSONResponse(content, status, headers)
            self._requests.labels(path, response.status_code).inc()
            self._seconds.labels(path).observe(time.monotonic() - started)
            return response

        return respond

    def explain_error(self, path, error):
        """Returns the status, content and headers of the response to an error.

        What is not the client's fault is logged.
        """
        if isinstance(error, RequestError):
            return error.status, {"error": str(error)}, error.headers
        if isinstance(error, TimeoutError):
            is_file = path == "/translate_file"
            limits = self.limits
            seconds = limits.file_timeout if is_file else limits.timeout
            return 504, {"error": f"No result within {seconds:g} s."}, {}
        _LOGGER.error("A request to %s failed.", path, exc_info=error)
        message = "The model failed; see the server's log."
        return 500, {"error": message}, {}

    async def show_page(self, _):
        return HTMLResponse(self._page)

    async def report_health(self, _):
        return JSONResponse({"status": "ok"})

    async def report_metrics(self, _):
        content = prometheus_client.generate_latest(self._metrics)
        return Response(
            content, media_type=prometheus_client.CONTENT_TYPE_LATEST
        )

    async def report_status(self, _):
        """TensorFlow Serving's status of a model."""
        status = {"error_code": "OK", "error_message": ""}
        version = {"version": "1", "state": "AVAILABLE", "status": status}
        return JSONResponse({"model_version_status": [version]})

    async def show_description(self, _):
        return Response(
            (_PAGE / "openapi.json").read_bytes(), media_type="application/json"
        )

    async def predict(self, model_name, request):
        """TensorFlow Serving's :predict, by rows or by columns."""
        content = await self.read_fields(request)
        served = self.models[model_name]
        parsed = parse_prediction(content, served.model, self.limits.max_texts)
        future = served.batcher.submit(parsed.signature, {"text": parsed.texts})
        outputs = await asyncio.wait_for(
            asyncio.wrap_future(future), self.limits.timeout
        )
        return JSONResponse(format_outputs(outputs, parsed.by_rows))

    async def read_fields(self, request, most=None):
        """Returns the fields of a request in JSON or of a form, a dict."""
        most, content = most or self.limits.max_bytes, bytearray()
        try:
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    raise RequestError(
                        413, f"A request may have {most:,} bytes."
                    )
        except ClientDisconnect:
            raise RequestError(
                408, "The client left, or its request came too slowly."
            ) from None
        fields = parse_fields(
            bytes(content),
            request.headers.get("content-type", ""),
            request.scope["query_string"].decode("latin-1"),
        )
        self._validate_key(request, fields)
        return fields

    def _validate_key(self, request, fields):
        if self._api_keys is None:
            return
        header = request.headers.get("authorization", "")
        given = fields.get("api_key") or re.sub(r"(?i)^bearer\s+", "", header)
        self._api_keys.validate(str(given))
