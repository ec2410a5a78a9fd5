"""Translates documents with the batches of the server."""

import asyncio
import time

from export.translators.signature_translator import SignatureTranslator


class DocumentTranslator(SignatureTranslator):
    """A TextTranslator for another thread, with the batches of the server.

    Args:
        run: coroutine function of a signature's name, texts and a timeout.
        loop: the event loop of the server.
        limits: ServerLimits.
        languages: Languages of the documents.
    """

    num_threads = 1

    def __init__(self, run, loop, limits, languages):
        self._run, self._loop = run, loop
        self.batch_size = limits.max_batch
        self.languages = languages
        self._deadline = time.monotonic() + limits.timeout

    def _predict(self, signature, texts):
        seconds = self._deadline - time.monotonic()
        result = self._run(signature, texts, max(seconds, 0.0))
        return asyncio.run_coroutine_threadsafe(result, self._loop).result()
