"""Translates documents with the batches of the server."""

import asyncio
import time

from export.documents.document import translate_documents
from export.translators.signature_translator import SignatureTranslator


class DocumentTranslator(SignatureTranslator):
    """A TextTranslator for another thread, with the batches of the server.

    Args:
        run: coroutine function of a signature's name, texts and a timeout.
        loop: the event loop of the server.
        limits: ServerLimits.
        languages: Languages of the documents.
        num_best: number of translations of each sentence.
    """

    num_threads = 1
    _rank = 0

    def __init__(self, run, loop, limits, languages, num_best=1):
        self._run, self._loop = run, loop
        self.batch_size = limits.max_batch
        self.languages = languages
        self._deadline = time.monotonic() + limits.timeout
        self._num_best = num_best
        # Translations of each text, best first, for all ranks.
        self._rows = {}

    def translate_versions(self, texts, document_format):
        """Returns the translations of each document, lists, best first.

        All sentences of the second are the second best, or the last possible.
        """
        versions = []
        for rank in range(self._num_best):
            self._rank = rank
            # Only the best translation of a sentence has alignments.
            self.has_alignments = rank == 0
            versions.append(translate_documents(self, texts, document_format))
        return [[*dict.fromkeys(row)] for row in zip(*versions)]

    def _search(self, sentences, n, align):
        if align or self._num_best == 1:
            return super()._search(sentences, n, align)
        missing = [each for each in sentences if each.text not in self._rows]
        if missing:
            found = super()._search(missing, self._num_best, align=False)
            self._rows |= zip([each.text for each in missing], found)
        rows = [self._rows[each.text] for each in sentences]
        return [row[min(self._rank, len(row) - 1) :][:1] for row in rows]

    def _predict(self, signature, texts):
        seconds = self._deadline - time.monotonic()
        result = self._run(signature, texts, max(seconds, 0.0))
        return asyncio.run_coroutine_threadsafe(result, self._loop).result()
