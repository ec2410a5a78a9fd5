"""Translates text with an exported version, as a server would."""

from export.errors import InputError
from export.server_session import ServerError, ServerSession
from export.translation import Translation

_BATCH = 64


class ExportedTranslator:
    """The same calls as Translator, answered by a SavedModel.

    Args:
        path: folder of one exported version.

    Raises:
        InputError: there is no such version, or it cannot be loaded.
    """

    def __init__(self, path):
        try:
            self._session = ServerSession(path)
        except ServerError as error:
            raise InputError(
                f"{path} is not an exported version that TensorFlow Serving "
                f"could load: {error}"
            ) from error

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
