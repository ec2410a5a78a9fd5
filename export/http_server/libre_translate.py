"""LibreTranslate's interface: requests and responses."""

import asyncio
import contextlib
import dataclasses
import json
import threading
import typing
import urllib.parse

from starlette.responses import JSONResponse, Response, StreamingResponse

from export.common.errors import InputError
from export.common.packages import explain_import_error
from export.formats.file_format import ENCODINGS, FileOptions
from export.formats.files import FORMATS
from export.http_server import detection
from export.http_server.document_translator import (
    DocumentTranslator,
    open_upload,
)
from export.http_server.fields import (
    RequestError,
    UploadedFile,
    parse_count,
    read_choice,
    read_flag,
    read_option,
    read_terms,
    validate_texts,
    validate_unicode,
)
from export.http_server.file_store import FileStore

# Characters of a file that its language is detected by.
_DETECTED = 2_000


class LibreTranslate:
    """The handlers of LibreTranslate's paths.

    `server` has `models`, `limits`, `document_threads`, `has_keys`, the
    coroutine function `read_fields`, and `explain_error`.
    """

    def __init__(self, server: typing.Any):
        self._server, self._models = server, server.models
        self._limits, self._threads = server.limits, server.document_threads
        self._files = FileStore()

    def paths(self) -> dict[str, tuple[str, typing.Callable]]:
        """Returns the method and the handler of each path."""
        return {
            "/detect": ("POST", self.detect),
            "/download_file/{path:path}": ("GET", self.download_file),
            "/frontend/settings": ("GET", self.report_settings),
            "/languages": ("GET", self.list_languages),
            "/suggest": ("POST", self.refuse_suggestion),
            "/translate": ("POST", self.translate),
            "/translate_file": ("POST", self.translate_file),
        }

    async def report_settings(self, _: typing.Any) -> Response:
        """What LibreTranslate's page asks for."""
        languages = self._models.list_languages()
        source, target = languages[0]["code"], languages[0]["targets"][0]
        return JSONResponse(
            {
                "apiKeys": self._server.has_keys,
                "keyRequired": self._server.has_keys,
                "charLimit": self._limits.max_bytes,
                "frontendTimeout": 500,
                "language": {
                    side: {"code": code, "name": code}
                    for side, code in (("source", source), ("target", target))
                },
                "suggestions": False,
                "supportedFilesFormat": [
                    ending
                    for each in FORMATS.values()
                    for ending in each.endings
                ],
            }
        )

    async def refuse_suggestion(self, request: typing.Any) -> Response:
        """LibreTranslate's /suggest, refused."""
        await self._server.read_fields(request)
        raise RequestError(403, "This server does not keep suggestions.")

    async def list_languages(self, _: typing.Any) -> Response:
        """LibreTranslate's /languages."""
        return JSONResponse(self._models.list_languages())

    async def detect(self, request: typing.Any) -> Response:
        """LibreTranslate's /detect."""
        fields = await self._server.read_fields(request)
        text = fields.get("q")
        validate_texts([text], "q", 1)
        return JSONResponse([await asyncio.to_thread(self._detect, text)])

    def _detect(self, text):
        codes = self._models.source_codes()
        code, confidence = detection.detect_language(text, codes)
        return {"confidence": confidence, "language": code}

    async def translate(self, request: typing.Any) -> Response:
        """LibreTranslate's /translate."""
        fields = await self._server.read_fields(request)
        query = fields.get("q")
        if not isinstance(query, (str, list)):
            raise RequestError(400, "q must be text, or a list of texts.")
        texts = [query] if isinstance(query, str) else query
        validate_texts(texts, "q", self._limits.max_texts)
        document_format = read_choice(fields, "format", ("text", "html"))
        source = _read_language(fields, "source", "auto")
        target = _read_language(fields, "target")
        columns = {}
        sources = [None if source == "auto" else source] * len(texts)
        # One known source needs no detection.
        is_open = source == "auto" and len(self._models.source_codes()) > 1
        if is_open and (len(self._models) > 1 or detection.can_detect()):
            # In a thread, so that other requests do not wait.
            found = await asyncio.to_thread(lambda: [*map(self._detect, texts)])
            columns["detectedLanguage"] = found
            sources = [each["language"] for each in found]
        rows: list[dict[str, typing.Any]] = [{} for _ in texts]
        for code in dict.fromkeys(sources):
            numbers = [i for i, each in enumerate(sources) if each == code]
            group = [texts[number] for number in numbers]
            route = self._models.find_route(code, target, group)
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
        model = route[-1].served.model
        count = parse_count(read_option(fields, "alternatives", 0))
        if not 0 <= count < model.beam_size:
            raise RequestError(
                400, f"alternatives must be from 0 to {model.beam_size - 1}."
            )
        terms = read_terms(fields)
        wants_confidence = read_flag(fields, "confidence")
        if wants_confidence and "align" not in model.inputs:
            raise RequestError(400, "This model has no confidence.")
        if terms is not None:
            _validate_terms(route)
            if count or wants_confidence:
                raise RequestError(
                    400, "Ask for terms without alternatives and confidence."
                )
        loop = asyncio.get_running_loop()
        # Together, for one time limit.
        translators = [
            DocumentTranslator(
                hop,
                self._limits,
                count + 1 if hop is route[-1] else 1,
                terms,
                wants_confidence and hop is route[-1],
            )
            for hop in route
        ]
        versions = [[text] for text in texts]
        for translator in translators:
            sources = [row[0] for row in versions]
            call = translator.translate_versions, sources, document_format
            with _explain_terms(terms):
                versions = await loop.run_in_executor(self._threads, *call)
        columns = {"translatedText": [row[0] for row in versions]}
        if count:
            columns["alternatives"] = [row[1:] for row in versions]
        if len(route) > 1:
            pivot = route[0].languages.target
            columns["pivot"] = [pivot] * len(texts)
        if wants_confidence:
            columns["confidence"] = translators[-1].confidences
        if read_flag(fields, "suspect"):
            suspicions = translators[-1].find_suspicions(sources, versions)
            columns["suspect"] = suspicions
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    async def translate_file(self, request: typing.Any) -> Response:
        """LibreTranslate's /translate_file."""
        most = self._limits.max_file_bytes
        fields = await self._server.read_fields(request, most)
        file = fields.get("file")
        if not isinstance(file, UploadedFile):
            raise RequestError(400, "file must be a file in a form.")
        source = _read_language(fields, "source", "auto")
        options = FileOptions(
            source_language=None if source == "auto" else source,
            target_language=_read_language(fields, "target"),
            encoding=read_choice(fields, "encoding", (None, *ENCODINGS)),
        )
        terms = read_terms(fields)

        async def translate(on_progress):
            content = await self._translate_upload(
                file, options, terms, on_progress
            )
            path = urllib.parse.quote(self._files.add(file.name, content))
            address = f"{request.base_url}download_file/{path}"
            return {"translatedFileUrl": address}

        if "text/event-stream" not in request.headers.get("accept", ""):
            return JSONResponse(await translate(lambda _: None))
        return StreamingResponse(
            self._send_progress(translate), media_type="text/event-stream"
        )

    async def _translate_upload(self, file, options, terms, on_progress):
        """Returns the bytes of a translated file; raises RequestError."""
        seconds = self._limits.file_timeout
        limits = dataclasses.replace(self._limits, timeout=seconds)
        loop = asyncio.get_running_loop()

        def translate():
            opened = open_upload(file, options)
            texts = [segment.text for segment in opened.segments]
            code = options.source_language
            if code is None and len(self._models.source_codes()) > 1:
                code = self._detect(" ".join(texts)[:_DETECTED])["language"]
            route = self._models.find_route(code, options.target_language)
            if terms is not None:
                _validate_terms(route)
            for number, hop in enumerate(route):
                translator = DocumentTranslator(hop, limits, terms=terms)
                opened = translator.translate_opened(
                    opened,
                    lambda part, number=number: on_progress(
                        (number + part) / len(route)
                    ),
                )
            return opened.write([each.text for each in opened.segments])

        try:
            return await loop.run_in_executor(self._threads, translate)
        except InputError as error:
            raise RequestError(400, str(error)) from None
        except ModuleNotFoundError as error:
            message = explain_import_error(error)
            raise RequestError(501, str(message)) from None

    async def _send_progress(self, translate):
        """Yields events, as of Server-Sent Events: progress, then the result.

        `translate` is a coroutine function of a function that gets the part
        that is done, and is stopped when the client leaves.
        """
        loop, events = asyncio.get_running_loop(), asyncio.Queue()
        has_left = threading.Event()

        def report(part):
            if has_left.is_set():
                raise RequestError(408, "The client left.")
            event = "progress", {"progress": round(part, 4)}
            loop.call_soon_threadsafe(events.put_nowait, event)

        async def run():
            try:
                content = await translate(report)
                events.put_nowait(("result", content))
            except Exception as error:
                status, content, _ = self._server.explain_error(
                    "/translate_file", error
                )
                events.put_nowait(("error", {"status": status, **content}))

        task = asyncio.create_task(run())
        try:
            name = "progress"
            while name == "progress":
                name, content = await events.get()
                yield f"event: {name}\ndata: {json.dumps(content)}\n\n"
            await task
        finally:
            has_left.set()

    async def download_file(self, request: typing.Any) -> Response:
        """LibreTranslate's path of translated files."""
        found = self._files.find(request.path_params["path"])
        if found is None:
            raise RequestError(404, "There is no such file, or no longer.")
        name = urllib.parse.quote(found.name)
        return Response(
            found.content,
            media_type="application/octet-stream",
            headers={
                "Content-Disposition": f"attachment; filename*=UTF-8''{name}"
            },
        )


def _validate_terms(route):
    """Refuses terms for a pivot, and for a model that takes none."""
    if len(route) > 1:
        raise RequestError(
            400, "Terms need a model that translates without a pivot."
        )
    if "translate_with_terms" not in route[0].served.model.inputs:
        raise RequestError(
            400, f"The model {route[0].served.name} has no terms."
        )


@contextlib.contextmanager
def _explain_terms(terms):
    """Refuses a request whose terms no translation can have."""
    try:
        yield
    except InputError as error:
        if terms is None:
            raise
        raise RequestError(400, str(error)) from None


def _read_language(fields, name, default=None):
    code = read_option(fields, name, default)
    if code is None and name == "target":
        return None
    if not isinstance(code, str):
        raise RequestError(400, f"{name} must be a language's code.")
    validate_unicode(code, name)
    return code
