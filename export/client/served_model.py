"""A model on a server, and the errors of its requests."""

import abc
import typing
import urllib.parse

from export.common.errors import InputError

# In bytes; far more than the alignments of a batch take.
MAX_ANSWER_BYTES = 1 << 30
_MAX_REASON_LENGTH = 300
# Messages by kind of error; the reason is the server's message.
_MESSAGES = {
    "unreachable": "{server} does not answer: {reason}; check that the server "
    "runs and that address and port are right",
    "busy": "{server} is too busy: {reason}",
    "late": "{server} did not answer within {reason}; give more "
    "--timeout_seconds, or a smaller --batch_size",
    "unknown": "{server} does not serve {model}: {reason}; check --model_name, "
    "--version and --label",
    "refused": "{server} refused the request to {model}: {reason}; the model "
    "must be an export of export.saved_model",
    "failed": "{server} failed: {reason}; see its log",
    "unreadable": "{server} answered {reason}; check that TensorFlow Serving "
    "listens there, and that the model is an export of export.saved_model",
}
_WORTH_RETRYING = ("unreachable", "busy")


class ServedModel(typing.NamedTuple):
    """Identifies a served model; its newest version by default.

    Either a version or its label may be given.
    """

    name: str
    version: int | None = None
    label: str | None = None

    def path(self):
        """Returns the path of the model's REST URL."""
        path = f"/v1/models/{urllib.parse.quote(self.name, safe='')}"
        if self.version is not None:
            return f"{path}/versions/{self.version}"
        if self.label is not None:
            return f"{path}/labels/{urllib.parse.quote(self.label, safe='')}"
        return path

    def __str__(self):
        version = self.label if self.version is None else self.version
        return f"version {version} of {self.name}" if version else self.name


class UnavailableError(InputError):
    """The server cannot be reached or is too busy; a retry may succeed."""


class ModelServer(abc.ABC):
    """One model of a server.

    The time limit `timeout_seconds` holds for a complete response.
    """

    def __init__(self, address, model, timeout_seconds):
        self.address = address
        self._model = model
        self._timeout = timeout_seconds

    @abc.abstractmethod
    def predict(self, signature, texts):
        """Runs a signature with the input `text`, a list of str.

        Returns:
            dict of output names to arrays or nested lists; text is bytes or
            str.

        Raises:
            UnavailableError: the server is unreachable or too busy.
            InputError: it refuses, fails, is late or is no TensorFlow Serving.
        """

    def error(self, kind, reason):
        """Returns the InputError of a kind in `_MESSAGES`."""
        reason = " ".join(str(reason).split()).rstrip(".;")
        if len(reason) > _MAX_REASON_LENGTH:
            reason = f"{reason[:_MAX_REASON_LENGTH]}..."
        message = _MESSAGES[kind].format(
            server=self.address, model=self._model, reason=reason
        )
        error = UnavailableError if kind in _WORTH_RETRYING else InputError
        return error(f"{message}.")
