"""The interfaces of the server: a page, LibreTranslate's, TensorFlow Serving's.

Errors are JSON, {"error": message}, with a status of 400 to 504.
"""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import hmac
import logging
import pathlib
import re
import time

import numpy as np
import prometheus_client
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from export.common.errors import InputError
from export.http_server.batcher import Batcher, QueueFullError
from export.http_server.document_translator import DocumentTranslator
from export.http_server.fields import (
    RequestError,
    parse_count,
    parse_fields,
    read_option,
    select_text,
    validate_texts,
    validate_unicode,
)
from export.http_server.models import list_languages
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
# The signature with languages; here by columns only.
_LANGUAGES = "translate_languages"
_LANGUAGE_INPUTS = ("source_language", "target_language")
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
    model: LoadedModel,
    model_name: str = "translator",
    limits: ServerLimits | None = None,
    api_key: str | None = None,
) -> Starlette:
    """Returns the ASGI application for a model.

    `model_name` is that of TensorFlow Serving's paths. With an `api_key`, POST
    requests need it as a field `api_key` or in a header "Authorization: Bearer
    KEY"; GET requests, as of /health and /metrics, need none.
    """
    server = _Server(model, model_name, limits or ServerLimits(), api_key)
    paths = {
        "/": ("GET", server.show_page),
        "/health": ("GET", server.report_health),
        "/languages": ("GET", server.list_languages),
        "/metrics": ("GET", server.report_metrics),
        "/translate": ("POST", server.translate),
        f"/v1/models/{model_name}": ("GET", server.report_status),
        f"/v1/models/{model_name}:predict": ("POST", server.predict),
    }

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

    def __init__(self, model, model_name, limits, api_key):
        self._model = model
        self._page = (_PAGE / "index.html").read_text("utf-8")
        for marker, content in {
            "MODEL_PATH": f"v1/models/{model_name}:predict",
            "SHARED_STYLE": (_PAGE / "shared.css").read_text("utf-8"),
            "SHARED_SCRIPT": (_PAGE / "shared.js").read_text("utf-8"),
        }.items():
            self._page = self._page.replace(marker, content)
        self._limits = limits
        self._api_key = api_key
        self.batcher = Batcher(
            model.run, limits.max_batch, limits.max_waiting, limits.num_threads
        )
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
        ).set_function(lambda: self.batcher.num_waiting)

    def close(self):
        """Finishes the requests, then ends the threads."""
        self._document_threads.shutdown()
        self.batcher.close()

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

    async def list_languages(self, _):
        return JSONResponse(list_languages(self._model.languages))

    async def translate(self, request):
        """LibreTranslate's /translate."""
        fields = await self._read_fields(request)
        query = fields.get("q")
        if not isinstance(query, (str, list)):
            raise RequestError(400, "q must be text, or a list of texts.")
        texts = [query] if isinstance(query, str) else query
        validate_texts(texts, "q", self._limits.max_texts)
        source = read_option(fields, "source", "auto")
        target = read_option(fields, "target")
        languages = self._select_languages(texts, source, target)
        document_format = read_option(fields, "format", "text")
        if document_format not in _FORMATS:
            raise RequestError(400, f"format must be {' or '.join(_FORMATS)}.")
        count = parse_count(read_option(fields, "alternatives", 0))
        if not 0 <= count < self._model.beam_size:
            raise RequestError(
                400,
                f"alternatives must be from 0 to {self._model.beam_size - 1}.",
            )
        loop = asyncio.get_running_loop()
        translator = DocumentTranslator(
            self._run, loop, self._limits, languages, count + 1
        )
        call = translator.translate_versions, texts, document_format
        versions = await loop.run_in_executor(self._document_threads, *call)
        response = {"translatedText": [row[0] for row in versions]}
        if count:
            response["alternatives"] = [row[1:] for row in versions]
        if str(read_option(fields, "suspect", False)).lower() == "true":
            response["suspect"] = translator.find_suspicions(texts, versions)
        if isinstance(query, str):
            response = {name: rows[0] for name, rows in response.items()}
        return JSONResponse(response)

    async def predict(self, request):
        """TensorFlow Serving's :predict, by rows or by columns."""
        content = await self._read_fields(request)
        name = content.get("signature_name", "serving_default")
        inputs = self._model.inputs.get(name) if isinstance(name, str) else None
        by_rows = "instances" in content
        field = "instances" if by_rows else "inputs"
        value = content.get(field)
        has_languages = (
            name == _LANGUAGES and bool(inputs) and isinstance(value, dict)
        )
        if has_languages:
            name = "serving_default"
        elif inputs != ["text"]:
            signatures = self._model.inputs.items()
            usable = [key for key, names in signatures if names == ["text"]]
            raise RequestError(
                400, f"signature_name must be one of {', '.join(usable)}."
            )
        if by_rows and "inputs" in content:
            raise RequestError(400, "Give instances or inputs, not both.")
        names = {"text", *(_LANGUAGE_INPUTS if has_languages else ())}
        texts = select_text(value, names, field)
        if by_rows and isinstance(texts, list):
            texts = [select_text(each, names, field) for each in texts]
        validate_texts(texts, field, self._limits.max_texts)
        if has_languages:
            texts = self._tag_texts(texts, value)
        outputs = await self._run(name, texts)
        columns = {key: _to_json(value) for key, value in outputs.items()}
        if not by_rows:
            return JSONResponse({"outputs": columns})
        rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
        return JSONResponse({"predictions": rows})

    def _select_languages(self, texts, source, target):
        """Returns the Languages of texts; "auto" is the model's source."""
        languages = self._model.languages
        for name, code in ("source", source), ("target", target):
            if not isinstance(code, str):
                raise RequestError(400, f"{name} must be a language's code.")
            validate_unicode(code, name)
        source = None if source in ("auto", "und") else source
        if target == "und" and not languages.codes:
            target = None
        try:
            languages = languages.select(source, target)
            for text in texts:
                languages.tag(text)
        except InputError as error:
            raise RequestError(400, str(error)) from None
        return languages

    def _tag_texts(self, texts, fields):
        """Returns texts with the tags of the languages of a request."""
        columns = [texts]
        for name in _LANGUAGE_INPUTS:
            codes = fields.get(name)
            if not isinstance(codes, list) or len(codes) != len(texts):
                raise RequestError(400, f"{name} must have a code per text.")
            columns.append(codes)
        # A model with tags of targets only ignores the sources'.
        has_sources = "source" in self._model.languages.tag_sides
        return [
            self._select_languages(
                [text], (has_sources and source) or "auto", target
            ).tag(text)
            for text, source, target in zip(*columns)
        ]

    async def _run(self, signature, texts, timeout=None):
        """Returns a signature's outputs for texts, a dict of arrays.

        `timeout` is what remains of the seconds of the request, by default all.
        """
        timeout = self._limits.timeout if timeout is None else timeout
        try:
            future = self.batcher.submit(signature, texts)
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
        if self._api_key is None:
            return
        header = request.headers.get("authorization", "")
        given = fields.get("api_key") or re.sub(r"(?i)^bearer\s+", "", header)
        # In constant time, so that no key can be guessed bit by bit.
        if not hmac.compare_digest(
            str(given).encode("utf-8", "replace"), self._api_key.encode("utf-8")
        ):
            raise RequestError(403, "The api_key is missing or wrong.")


def _to_json(values):
    """Converts an array to nested lists; bytes are UTF-8."""
    if values.dtype == object:
        decode = np.frompyfunc(lambda each: each.decode("utf-8"), 1, 1)
        values = decode(values)
    return values.tolist()
