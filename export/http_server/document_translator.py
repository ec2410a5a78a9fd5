"""Translates whole documents of a server with its batches."""

import asyncio
import re
import time
import typing
from collections.abc import Callable, Coroutine, Sequence

from export.documents.document import translate_documents
from export.formats.file_format import FileOptions, OpenFile
from export.formats.files import find_format, open_file, translate_segments
from export.http_server.fields import UploadedFile
from export.translators.languages import Languages
from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator

if typing.TYPE_CHECKING:
    from export.http_server.app import ServerLimits

# Tags and entities, whose names would count as copied words.
_MARKUP = re.compile("<[a-z/][^<>]*>|&[a-z]+;", re.IGNORECASE)


class DocumentTranslator:
    """Translates documents in another thread than that of the server.

    Args:
        run: coroutine function of a signature's name, texts and a timeout.
        loop: the event loop of the server.
        limits: those of the server.
        languages: those of the documents.
        num_best: number of translations of each document.
    """

    def __init__(
        self,
        run: Callable[[str, list[str], float], Coroutine],
        loop: asyncio.AbstractEventLoop,
        limits: "ServerLimits",
        languages: Languages,
        num_best: int = 1,
    ):
        deadline = time.monotonic() + limits.timeout

        def run_in_loop(signature, inputs):
            seconds = max(deadline - time.monotonic(), 0.0)
            result = run(signature, inputs["text"], seconds)
            return asyncio.run_coroutine_threadsafe(result, loop).result()

        self._backend = _RankedBackend(
            run_in_loop,
            num_threads=limits.num_threads,
            batch_size=limits.max_batch,
        )
        self._backend.num_best = num_best
        self._translator = Translator(self._backend, languages)

    def translate_versions(
        self, texts: list[str], document_format: str
    ) -> list[list[str]]:
        """Returns the translations of each document, best first.

        All sentences of the second are the second best, or the last possible.
        """
        versions = []
        for rank in range(self._backend.num_best):
            self._backend.rank = rank
            # Only the best translation of a sentence has alignments.
            self._backend.has_alignments = rank == 0
            versions.append(
                translate_documents(self._translator, texts, document_format)
            )
        return [[*dict.fromkeys(row)] for row in zip(*versions)]

    def translate_opened(self, file: OpenFile) -> OpenFile:
        """Returns a file with the translations of its Segments as Segments."""
        texts = translate_segments(self._translator, file.segments)
        segments = [
            segment._replace(text=text)
            for segment, text in zip(file.segments, texts)
        ]
        return file._replace(segments=segments)

    def find_suspicions(
        self, texts: list[str], versions: list[list[str]]
    ) -> list[str]:
        """Returns why the best translations may be wrong."""
        columns: Sequence[list[str]] = texts, [row[0] for row in versions]
        columns = [[_MARKUP.sub("", text) for text in each] for each in columns]
        return self._translator.find_suspicions(*columns)


def open_upload(
    file: UploadedFile, source: str, target: str | None
) -> OpenFile:
    """Opens a file by its name's ending; raises InputError."""
    options = FileOptions(
        source_language=None if source == "auto" else source,
        target_language=target,
    )
    name = find_format(file.name, None, file.content)
    return open_file(file.content, name, options)


class _RankedBackend(SignatureBackend):
    """Gives the translations of one rank, 0 for the best, as the best."""

    rank, num_best = 0, 1

    def __init__(self, *arguments, **attributes):
        super().__init__(*arguments, **attributes)
        # Translations of each text, best first.
        self._rows = {}

    def search(self, sentences, n, align):
        """See the base class."""
        if align or self.num_best == 1:
            return super().search(sentences, n, align)
        missing = [each for each in sentences if each.text not in self._rows]
        if missing:
            found = super().search(missing, self.num_best, align=False)
            self._rows |= zip([each.text for each in missing], found)
        rows = [self._rows[each.text] for each in sentences]
        return [row[min(self.rank, len(row) - 1) :][:1] for row in rows]
