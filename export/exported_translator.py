"""Translates text with an exported version, as a server would."""

from export.server_session import ServerSession
from export.translator import Translation

_BATCH = 64


class ExportedTranslator:
    """The same calls as Translator, answered by a SavedModel.

    Args:
        path: folder of one exported version.

    Raises:
        InputError: there is no such version, or it cannot be loaded.
    """

    def __init__(self, path):
        self._session = ServerSession(path)

    def translate(self, texts, on_progress=None):
        """Translates sentences; see `Translator.translate`."""
        results = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            results += self._ask(batch)
            if on_progress is not None:
                on_progress(len(batch))
        return results

    def _ask(self, texts):
        answer = self._session.run(
            "serving_default", {"text": [text.encode() for text in texts]}
        )
        return [
            Translation(text.decode("utf-8"), float(score))
            for text, score in zip(answer["translation"], answer["score"])
        ]
