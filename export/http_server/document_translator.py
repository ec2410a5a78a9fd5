"""Translates whole documents of a server with its batches."""

import collections
import math
import re
import time
import typing
from collections.abc import Callable, Sequence

from export.documents.document import translate_documents
from export.formats.file_format import FileOptions, OpenFile
from export.formats.files import find_format, open_file, translate_segments
from export.http_server.fields import UploadedFile
from export.http_server.model_set import Hop
from export.terms.terms import Terms
from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator

if typing.TYPE_CHECKING:
    from export.http_server.app import ServerLimits

# Tags and entities, whose names would count as copied words.
_MARKUP = re.compile("<[a-z/][^<>]*>|&[a-z]+;", re.IGNORECASE)


class DocumentTranslator:
    """Translates documents in another thread than that of the server.

    Args:
        hop: the model and its languages.
        limits: those of the server.
        num_best: number of translations of each document.
        terms: Terms of the documents, or None.
        aligns_all: whether `confidences` is filled, by aligning all sentences;
            not with terms.

    Attributes:
        confidences: of each document that was translated last.
    """

    def __init__(
        self,
        hop: Hop,
        limits: "ServerLimits",
        num_best: int = 1,
        terms: Terms | None = None,
        aligns_all: bool = False,
    ):
        deadline = time.monotonic() + limits.timeout

        def run(signature, inputs):
            future = hop.served.batcher.submit(signature, inputs)
            try:
                return future.result(max(deadline - time.monotonic(), 0.0))
            except TimeoutError:
                future.cancel()
                raise

        self._backend = _RankedBackend(
            run,
            num_threads=limits.num_threads,
            batch_size=limits.max_batch,
        )
        self._backend.num_best = num_best
        self._aligns_all, self._terms = aligns_all, terms
        self.confidences: list[float | None] = []
        self._can_align = "align" in hop.served.model.inputs
        self._backend.has_alignments = self._can_align
        self._translator = Translator(self._backend, hop.languages)

    def translate_versions(
        self, texts: list[str], document_format: str
    ) -> list[list[str]]:
        """Returns the translations of each document, best first.

        All sentences of the second are the second best, or the last possible.
        """
        log_probs: dict[int, list[float]] = collections.defaultdict(list)

        def collect(index, segment):
            log_probs[index] += segment.log_probs

        versions = []
        for rank in range(self._backend.num_best):
            self._backend.rank = rank
            # Only the best translation of a sentence has alignments.
            self._backend.has_alignments = self._can_align and rank == 0
            self._backend.aligns_all = self._aligns_all and rank == 0
            versions.append(
                translate_documents(
                    self._translator,
                    texts,
                    document_format,
                    terms=self._terms,
                    on_segment=collect if self._backend.aligns_all else None,
                )
            )
        self.confidences = [
            _mean_probability(log_probs[index]) for index in range(len(texts))
        ]
        return [[*dict.fromkeys(row)] for row in zip(*versions)]

    def translate_opened(
        self,
        file: OpenFile,
        on_progress: Callable[[float], object] | None = None,
    ) -> OpenFile:
        """Returns a file with the translations of its Segments as Segments.

        `on_progress` gets the part of the sentences that is translated, 0 to 1.
        """
        num_done = 0

        def count(number):
            nonlocal num_done
            num_done += number
            if on_progress is not None:
                on_progress(num_done / max(num_done, self._backend.num_read))

        texts = translate_segments(
            self._translator, file.segments, count, self._terms
        )
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


def open_upload(file: UploadedFile, options: FileOptions) -> OpenFile:
    """Opens a file by its name's ending; raises InputError."""
    name = find_format(file.name, None, file.content)
    return open_file(file.content, name, options)


def _mean_probability(log_probs):
    """Returns the geometric mean of words' probabilities; None for no word."""
    if not log_probs:
        return None
    return round(math.exp(sum(log_probs) / len(log_probs)), 4)


class _RankedBackend(SignatureBackend):
    """Gives the translations of one rank, 0 for the best, as the best."""

    rank, num_best = 0, 1
    aligns_all = False

    def __init__(self, *arguments, **attributes):
        super().__init__(*arguments, **attributes)
        # Translations of each text, best first.
        self._rows = {}
        self.num_read = 0

    def tokenize(self, texts):
        """See the base class."""
        self.num_read += len(texts)
        return super().tokenize(texts)

    def search(self, sentences, n, align):
        """See the base class."""
        align = align or self.aligns_all
        if align or self.num_best == 1:
            return super().search(sentences, n, align)
        missing = [each for each in sentences if each.text not in self._rows]
        if missing:
            found = super().search(missing, self.num_best, align=False)
            self._rows |= zip([each.text for each in missing], found)
        rows = [self._rows[each.text] for each in sentences]
        return [row[min(self.rank, len(row) - 1) :][:1] for row in rows]
