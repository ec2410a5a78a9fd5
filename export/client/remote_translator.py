"""Translates text with a model on TensorFlow Serving."""

import abc
import math
import time
import typing
import urllib.parse

import numpy as np

from export.common.errors import InputError
from export.translators.text_translator import Sentence, SignatureTranslator

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
# Required outputs of each signature, with their dtype and rank.
_OUTPUTS = {
    "serving_default": {"translation": (object, 1), "score": ("float32", 1)},
    "n_best": {"translations": (object, 2), "scores": ("float32", 2)},
    "align": {
        "translation": (object, 1),
        "score": ("float32", 1),
        "source_words": ("int32", 3),
        "target_words": ("int32", 3),
        "alignment": ("float32", 3),
    },
}
_FIRST_PAUSE_SECONDS = 0.5


class ServedModel(typing.NamedTuple):
    """Identifies a served model: its newest version, one version or a label."""

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
    """One model of a server; the time limit is for a complete response."""

    def __init__(self, address, model, timeout_seconds):
        self.address = address
        self._model = model
        self._timeout = timeout_seconds

    @abc.abstractmethod
    def predict(self, signature, texts):
        """Runs a signature with the input `text`, a list of str.

        Returns a dict of output names to arrays or nested lists; text is bytes
        or str. Raises UnavailableError if the server is unreachable or too
        busy, else InputError.
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


class RemoteTranslator(SignatureTranslator):
    """A TextTranslator that sends its batches to a ModelServer.

    A request is repeated up to `retries` times while the server is unavailable,
    after pauses of 0.5, 1, 2, 4, ... seconds. Methods raise InputError if the
    server does not answer, gives an unexpected answer, or has fewer beams than
    requested translations.
    """

    beam_size = None
    # With several threads, Ctrl-C would wait for a server that hangs.
    num_threads = 1

    def __init__(self, server, batch_size, retries, sleep=time.sleep):
        self._server = server
        self.name = server.address
        self.batch_size = batch_size
        self._retries = retries
        self._sleep = sleep

    def _sentences(self, texts):
        # Only the server can count tokens; characters sort them equally well.
        return [
            Sentence(text, (), len(text) + 1 if text.strip() else 1, False)
            for text in texts
        ]

    def _predict(self, signature, texts):
        outputs = self._predict_with_retries(signature, texts)
        if {"tree", "trees"} & set(outputs):
            raise InputError(
                f"Expected translations from {self.name}, got the trees of a "
                "parser; name a translator with --model_name."
            )
        kinds = _OUTPUTS[signature] | {"truncated": ("bool", 1)}
        try:
            for name in kinds:
                if name not in outputs:
                    raise ValueError(f"without the output {name}")
            answer = {
                name: _to_array(name, outputs[name], *kind, len(texts))
                for name, kind in kinds.items()
            }
            _check_shapes(answer, texts)
        except ValueError as error:
            raise self._server.error("unreadable", error) from None
        return answer

    def _predict_with_retries(self, signature, texts):
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(self._retries):
            try:
                return self._server.predict(signature, texts)
            except UnavailableError:
                self._sleep(pause)
                pause *= 2
        return self._server.predict(signature, texts)


def _to_array(name, value, dtype, rank, count):
    """Returns an output as an array of `count` rows, or raises ValueError."""
    if getattr(value, "dtype", dtype) != dtype:
        raise ValueError(f"with {name} of type {value.dtype}")
    try:
        array = np.asarray(value, dtype, order="C")
        if dtype is object:
            array = np.vectorize(_to_bytes, otypes=[object])(array)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"with a wrong {name}: {error}") from None
    # The rank of nested lists that are empty is unknown.
    is_right = array.ndim == rank or (rank > 1 and not array.size)
    if not is_right or array.shape[:1] != (count,):
        raise ValueError(
            f"with {name} of shape {array.shape} for {count} sentences"
        )
    return array


def _to_bytes(text):
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode("utf-8")
    raise TypeError(f"expected text, got {text!r:.60}")


def _check_shapes(answer, texts):
    """Raises ValueError if shapes of outputs are inconsistent."""
    fits = True
    if "scores" in answer:
        fits = answer["scores"].shape == answer["translations"].shape
    if "alignment" in answer:
        fits = _is_alignment(answer, texts)
    if not fits:
        raise ValueError("with outputs that do not fit together")


def _is_alignment(answer, texts):
    """Returns whether words and weights are consistent; adds missing axes."""
    translations = [
        each.decode("utf-8", "replace") for each in answer["translation"]
    ]
    shape = [len(texts)]
    for name, lines in (
        ("target_words", translations),
        ("source_words", texts),
    ):
        words = answer[name]
        if not words.size:
            words = answer[name] = words.reshape(len(lines), 0, 2)
        shape.append(words.shape[1])
        counts = [len(line.split()) for line in lines]
        last = words.max(axis=(1, 2), initial=-1)
        if words.shape[2] != 2 or (last >= counts).any():
            return False
    weights = answer["alignment"]
    is_empty = weights.size == math.prod(shape) == 0
    return is_empty or list(weights.shape) == shape
