"""Translates documents with the batches of the server."""

import asyncio
import time

from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator


def document_translator(run, loop, limits, languages):
    """Returns a Translator for another thread than that of the server.

    Args:
        run: coroutine function of a signature's name, texts and a timeout.
        loop: the event loop of the server.
        limits: ServerLimits.
        languages: Languages of the documents.
    """
    deadline = time.monotonic() + limits.timeout

    def run_in_loop(signature, inputs):
        seconds = max(deadline - time.monotonic(), 0.0)
        result = run(signature, inputs["text"], seconds)
        return asyncio.run_coroutine_threadsafe(result, loop).result()

    backend = SignatureBackend(
        run_in_loop, num_threads=1, batch_size=limits.max_batch
    )
    return Translator(backend, languages)
