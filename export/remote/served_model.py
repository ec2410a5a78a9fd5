"""Which of a server's models is asked, and what can go wrong with it."""

import typing
import urllib.parse

from export.errors import InputError

# Bytes; far more than the alignments of a batch take.
LONGEST_ANSWER = 1 << 30


class ServedModel(typing.NamedTuple):
    """A model as a client names it.

    Attributes:
        name: as the server's configuration has it.
        version: number, or None.
        label: of a version, or None; without both the newest answers.
    """

    name: str
    version: int | None = None
    label: str | None = None

    def path(self):
        """Returns the part of a REST address that names it."""
        path = f"/v1/models/{urllib.parse.quote(self.name, safe='')}"
        if self.version is not None:
            return f"{path}/versions/{self.version}"
        if self.label is not None:
            return f"{path}/labels/{urllib.parse.quote(self.label, safe='')}"
        return path

    def __str__(self):
        if self.version is not None:
            return f"version {self.version} of {self.name}"
        if self.label is not None:
            return f"the version {self.label} of {self.name}"
        return self.name


_LONGEST_MESSAGE = 300


class Unavailable(InputError):
    """The server cannot be reached or is too busy: later it may answer."""


def unreachable(server, reason):
    """Returns the Unavailable for a connection that was not made or broke.

    Args:
        server: where it was looked for.
        reason: the system's or the server's words.
    """
    return Unavailable(
        f"{server} does not answer: {one_line(reason)}; check that the server "
        "runs and that address and port are right."
    )


def timed_out(server, seconds):
    """Returns the InputError for an answer that did not come in time."""
    return InputError(
        f"{server} did not answer within {seconds:g} s; give more "
        "--timeout_seconds, or a smaller --batch_size."
    )


def unknown_model(server, model, reason):
    """Returns the InputError for a model that is not served."""
    return InputError(
        f"{server} does not serve {model}: {one_line(reason)}; check "
        "--model_name, --version and --label."
    )


def refused(server, model, signature, reason):
    """Returns the InputError for a request that the server took for wrong."""
    return InputError(
        f"{server} refused the signature {signature} of {model}: "
        f"{one_line(reason)}; the model must be an export of "
        "export.saved_model."
    )


def failed(server, reason):
    """Returns the InputError for any other failure of the server's."""
    return InputError(
        f"{server} failed: {one_line(reason)}; its own log says more."
    )


def unreadable(server, what):
    """Returns the InputError for an answer that is none of a server's."""
    return InputError(
        f"{server} answered {one_line(what)}; check that TensorFlow Serving "
        "listens there, and that the model is an export of "
        "export.saved_model."
    )


def no_translator(server):
    """Returns the InputError for a model that answers with trees."""
    return InputError(
        f"{server} answered with trees, as a parser does, and export.client "
        "asks for translations; name a translator with --model_name."
    )


def one_line(text):
    """Returns words from outside without line breaks, and not too many."""
    words = " ".join(str(text).split()).rstrip(".;")
    if len(words) > _LONGEST_MESSAGE:
        return words[:_LONGEST_MESSAGE] + "..."
    return words
