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

from export.http_server import detection
from export.http_server.api_keys import ApiKeys
from export.http_server.batcher import QueueFullError
from export.http_server.document_translator import DocumentTranslator
from export.http_server.fields import (
    RequestError,
    parse_count,
    parse_fields,
    read_option,
    validate_texts,
    validate_unicode,
)
from export.http_server.model_set import ModelSet
from export.http_server.predictions import format_outputs, parse_prediction
from export.loading import LoadedModel

_PAGE = pathlib.Path(__file__).parent / "page"
_LOGGER = logging.getLogger(__name__)
_FORMATS = ("text", "html")
# What a browser asks before it sends a request of a page of another origin.
_OPTIONS = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "86400",
}
# Requests whose documents are translated at the same time.
_MAX_DOCUMENT_THREADS = 128


@dataclasses.dataclass(frozen=True)
class ServerLimits:
    """Limits of requests and of their number.

    `max_bytes` is of a request's content, `max_texts` the number of texts in a
    request, `max_batch` and `max_waiting` are of a Batcher, and `timeout` is in
    seconds.
    """

    max_bytes: int = 1_000_000
    max_texts: int = 256
    max_batch: int = 64
    max_waiting: int = 1024
    timeout: float = 60.0
    num_threads: int = 2


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
        "/detect": ("POST", server.detect),
        "/docs": ("GET", server.show_description),
        "/frontend/settings": ("GET", server.report_settings),
        "/health": ("GET", server.report_health),
        "/languages": ("GET", server.list_languages),
        "/metrics": ("GET", server.report_metrics),
        "/suggest": ("POST", server.refuse_suggestion),
        "/translate": ("POST", server.translate),
    }
    for name in models:
        path = f"/v1/models/{name}"
        paths[path] = "GET", server.report_status
        predict = functools.partial(server.predict, name)
        paths[f"{path}:predict"] = "POST", predict

    @contextlib.asynccontextmanager
    async def close_at_the_end(_):
        yield
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
        self._limits = limits
        self._api_keys = api_keys
        self._document_threads = concurrent.futures.ThreadPoolExecutor(
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
        self._document_threads.shutdown()
        self.models.close()

    def handle(self, path, function):
        """Returns an endpoint that counts requests and responds to errors."""

        async def respond(request):
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=_OPTIONS)
            started = time.monotonic()
            try:
                response = await function(request)
            except RequestError as error:
                response = JSONResponse(
                    {"error": str(error)}, error.status, error.headers
                )
            except Exception:
                _LOGGER.exception("A request to %s failed.", path)
                message = "The model failed; see the server's log."
                response = JSONResponse({"error": message}, 500)
            self._requests.labels(path, response.status_code).inc()
            self._seconds.labels(path).observe(time.monotonic() - started)
            return response

        return respond

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

    async def report_settings(self, _):
        """What LibreTranslate's page asks for."""
        languages = self.models.list_languages()
        source, target = languages[0]["code"], languages[0]["targets"][0]
        return JSONResponse(
            {
                "apiKeys": self._api_keys is not None,
                "keyRequired": self._api_keys is not None,
                "charLimit": self._limits.max_bytes,
                "frontendTimeout": 500,
                "language": {
                    side: {"code": code, "name": code}
                    for side, code in (("source", source), ("target", target))
                },
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def refuse_suggestion(self, request):
        await self._read_fields(request)
        raise RequestError(403, "This server does not keep suggestions.")

    async def list_languages(self, _):
        return JSONResponse(self.models.list_languages())

    async def detect(self, request):
        """LibreTranslate's /detect."""
        fields = await self._read_fields(request)
        text = fields.get("q")
        validate_texts([text], "q", 1)
        return JSONResponse([self._detect(text)])

    def _detect(self, text):
        codes = self.models.source_codes()
        code, confidence = detection.detect_language(text, codes)
        return {"confidence": confidence, "language": code}

    async def translate(self, request):
        """LibreTranslate's /translate."""
        fields = await self._read_fields(request)
        query = fields.get("q")
        if not isinstance(query, (str, list)):
            raise RequestError(400, "q must be text, or a list of texts.")
        texts = [query] if isinstance(query, str) else query
        validate_texts(texts, "q", self._limits.max_texts)
        document_format = read_option(fields, "format", "text")
        if document_format not in _FORMATS:
            raise RequestError(400, f"format must be {' or '.join(_FORMATS)}.")
        source = _read_language(fields, "source", "auto")
        target = _read_language(fields, "target")
        columns = {}
        sources = [None if source == "auto" else source] * len(texts)
        # One known source needs no detection.
        is_open = source == "auto" and len(self.models.source_codes()) > 1
        if is_open and (len(self.models) > 1 or detection.can_detect()):
            found = [*map(self._detect, texts)]
            columns["detectedLanguage"] = found
            sources = [each["language"] for each in found]
        rows = [None] * len(texts)
        for code in dict.fromkeys(sources):
            numbers = [i for i, each in enumerate(sources) if each == code]
            group = [texts[number] for number in numbers]
            route = self.models.find_route(code, target, group)
            found = await self._translate_by(
                route, group, document_format, fields
            )
            for number, row in zip(numbers, found):
                rows[number] = row
        # Only some texts may need a pivot.
        names = {name: None for row in rows for name in row}
        columns |= {name: [row.get(name) for row in rows] for name in names}
        if isinstance(query, str):
            columns = {name: column[0] for name, column in columns.items()}
        return JSONResponse(columns)

    async def _translate_by(self, route, texts, document_format, fields):
        """Returns a dict of the response's fields for each text."""
        beam_size = route[-1].served.model.beam_size
        count = parse_count(read_option(fields, "alternatives", 0))
        if not 0 <= count < beam_size:
            raise RequestError(
                400, f"alternatives must be from 0 to {beam_size - 1}."
            )
        loop = asyncio.get_running_loop()
        # Together, for one time limit.
        translators = [
            DocumentTranslator(
                functools.partial(self._run, hop.served),
                loop,
                self._limits,
                hop.languages,
                count + 1 if hop is route[-1] else 1,
            )
            for hop in route
        ]
        versions = [[text] for text in texts]
        for translator in translators:
            sources = [row[0] for row in versions]
            call = translator.translate_versions, sources, document_format
            versions = await loop.run_in_executor(self._document_threads, *call)
        columns = {"translatedText": [row[0] for row in versions]}
        if count:
            columns["alternatives"] = [row[1:] for row in versions]
        if len(route) > 1:
            pivot = route[0].languages.target
            columns["pivot"] = [pivot] * len(texts)
        if str(read_option(fields, "suspect", False)).lower() == "true":
            suspicions = translators[-1].find_suspicions(sources, versions)
            columns["suspect"] = suspicions
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    async def predict(self, model_name, request):
        """TensorFlow Serving's :predict, by rows or by columns."""
        content = await self._read_fields(request)
        served = self.models[model_name]
        parsed = parse_prediction(content, served.model, self._limits.max_texts)
        outputs = await self._run(served, parsed.signature, parsed.texts)
        return JSONResponse(format_outputs(outputs, parsed.by_rows))

    async def _run(self, served, signature, texts, timeout=None):
        """Returns a signature's outputs for texts, a dict of arrays.

        `timeout` is what remains of the seconds of the request, by default all.
        """
        timeout = self._limits.timeout if timeout is None else timeout
        try:
            future = served.batcher.submit(signature, texts)
        except QueueFullError:
            raise RequestError(
                429, "Too many requests are waiting.", Retry_After="1"
            ) from None
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), timeout)
        except TimeoutError:
            raise RequestError(
                504, f"No result within {self._limits.timeout:g} s."
            ) from None

    async def _read_fields(self, request):
        """Returns the fields of a request in JSON or of a form, a dict."""
        content = bytearray()
        try:
            async for chunk in request.stream():
                content += chunk
                if len(content) > self._limits.max_bytes:
                    raise RequestError(
                        413,
                        f"A request may have {self._limits.max_bytes:,} bytes.",
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


def _read_language(fields, name, default=None):
    code = read_option(fields, name, default)
    if code is None and name == "target":
        return None
    if not isinstance(code, str):
        raise RequestError(400, f"{name} must be a language's code.")
    validate_unicode(code, name)
    return code
