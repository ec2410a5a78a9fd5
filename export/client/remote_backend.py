"""Runs the signatures of a model on TensorFlow Serving."""

import abc
import time
import typing
from collections.abc import Callable

import numpy as np

from export.common.errors import InputError
from export.translators.languages import Languages
from export.translators.signature_backend import SignatureBackend
from export.translators.translation import MIN_POSSIBLE_SCORE

_MAX_REASON_LENGTH = 300
# Messages by type of error; the reason is the server's message.
_MESSAGES = {
    "unreachable": "{server} does not respond: {reason}; check that the server "
    "runs and that address and port are right",
    "busy": "{server} is too busy: {reason}",
    "timeout": "{server} did not respond within {reason}; give more "
    "--timeout_seconds, or a smaller --batch_size",
    "unknown": "{server} does not serve {model}: {reason}; check --model_name, "
    "--version and --label",
    "refused": "{server} refused the request to {model}: {reason}; the model "
    "must be an export of export.saved_model",
    "failed": "{server} failed: {reason}; see its log",
    "unreadable": "{server} responded {reason}; check that TensorFlow Serving "
    "listens there, and that the model is an export of export.saved_model",
}
_RETRIED = ("unreachable", "busy")
# Required outputs of each signature: dtype, and letters of the axes: B texts, K
# beams, S source and T target tokens.
_BEST = {"translation": (object, "B"), "score": ("float32", "B")}
_OUTPUTS = {
    "serving_default": _BEST,
    "translate_with_terms": _BEST,
    "translate_languages": _BEST,
    "lengths": {"length": ("int32", "B")},
    "n_best": {"translations": (object, "BK"), "scores": ("float32", "BK")},
    "align": {
        **_BEST,
        "source_words": ("int32", "BS2"),
        "target_words": ("int32", "BT2"),
        "alignment": ("float32", "BTS"),
        "token_log_probs": ("float32", "BT"),
    },
}
_FIRST_PAUSE_SECONDS = 0.5


class ServedModel(typing.NamedTuple):
    """Identifies a served model: its newest version, one version or a label.

    Attributes:
        name: the server's name for it.
        version: number of the version; None for the newest.
        label: instead, label of the version.
    """

    name: str
    version: int | None = None
    label: str | None = None

    def __str__(self):
        version = self.label if self.version is None else self.version
        return f"version {version} of {self.name}" if version else self.name


class UnavailableError(InputError):
    """The server cannot be reached or is too busy; a retry may succeed."""


class ModelServer(abc.ABC):
    """One model on a server.

    Args:
        address: in the form of the subclass.
        model: the model on it.
        timeout_seconds: maximum time to a complete response.
    """

    def __init__(
        self, address: str, model: ServedModel, timeout_seconds: float
    ):
        self.address = address
        self._model = model
        self._timeout = timeout_seconds

    @abc.abstractmethod
    def predict(
        self, signature: str, inputs: dict[str, list]
    ) -> dict[str, typing.Any]:
        """Runs a signature with `inputs`, see SignatureBackend.

        Returns a dict of output names to arrays or nested lists; text is bytes
        or str. Raises UnavailableError if the server is unreachable or too
        busy, else InputError.
        """

    def error(self, error_type: str, reason: object) -> InputError:
        """Returns the InputError for a type in `_MESSAGES`."""
        reason = " ".join(str(reason).split()).rstrip(".;")
        if len(reason) > _MAX_REASON_LENGTH:
            reason = f"{reason[:_MAX_REASON_LENGTH]}..."
        message = _MESSAGES[error_type].format(
            server=self.address, model=self._model, reason=reason
        )
        error = UnavailableError if error_type in _RETRIED else InputError
        return error(f"{message}.")


class RemoteBackend(SignatureBackend):
    """Runs the signatures of a model on a ModelServer.

    A request is repeated up to `retries` times while the server is unavailable,
    after pauses of 0.5, 1, 2, 4, ... seconds. Methods raise InputError for a
    missing or wrong response, or if more translations than beams are requested.

    Args:
        server: the model on a server.
        batch_size: maximum number of sentences in a request.
        retries: maximum number of repetitions of a request.
        sleep: function that waits for a number of seconds.
    """

    beam_size = None
    # With several threads, Ctrl-C would wait for a server that hangs.
    num_threads = 1

    def __init__(
        self,
        server: ModelServer,
        batch_size: int,
        retries: int,
        sleep: Callable[[float], object] = time.sleep,
    ):
        super().__init__(self._predict, name=server.address)
        self.batch_size = batch_size
        self._server, self._retries, self._sleep = server, retries, sleep

    def select_languages(
        self, languages: Languages, source: str | None, target: str | None
    ) -> Languages:
        """See the base class; asks the server whether its model has them."""
        if target is None:
            if source is not None:
                raise InputError("Give --target_language as well.")
            return languages
        # Blank text has score 0 unless a language is unknown.
        outputs = self.run(
            "translate_languages",
            [""],
            source_language=[source or ""],
            target_language=[target],
        )
        if outputs["score"][0] < MIN_POSSIBLE_SCORE:
            given = " or ".join(filter(None, (source, target)))
            raise InputError(f"{self.name} lacks the language {given}.")
        num_tags = 2 if source and self._has_source_tags(source, target) else 1
        return Languages((), num_tags, source, target)

    def _has_source_tags(self, source, target):
        """Whether texts begin with the tag of their own language, too."""
        tags = f">>{target}<<", f">>{source}<<>>{target}<<"
        outputs = self.run("lengths", [f"{each}a" for each in tags])
        # Otherwise the second tag is text, and the first is the source's.
        return len(set(outputs["length"].tolist())) == 1

    def _predict(self, signature, inputs):
        outputs = self._predict_with_retries(signature, inputs)
        texts = inputs["text"]
        if {"tree", "trees"} & set(outputs):
            raise InputError(
                f"Expected translations from {self.name}, got the trees of a "
                "parser; name a translator with --model_name."
            )
        specs = _OUTPUTS[signature] | {"truncated": ("bool", "B")}
        arrays, axis_sizes = {}, {"B": len(texts), "2": 2}
        try:
            for name, (dtype, axes) in specs.items():
                arrays[name] = _to_array(name, outputs.get(name), dtype)
                if not _has_axes(arrays[name].shape, axes, axis_sizes):
                    raise ValueError(f"with {name} of a wrong shape")
            if signature == "align":
                _validate_words(arrays, texts)
        except ValueError as error:
            raise self._server.error("unreadable", error) from None
        return arrays

    def _predict_with_retries(self, signature, inputs):
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(self._retries):
            try:
                return self._server.predict(signature, inputs)
            except UnavailableError:
                self._sleep(pause)
                pause *= 2
        return self._server.predict(signature, inputs)


def _to_array(name, value, dtype):
    if getattr(value, "dtype", dtype) != dtype:
        raise ValueError(f"with {name} of type {value.dtype}")
    try:
        array = np.asarray(value, dtype, order="C")
        if dtype is object:
            array = np.vectorize(_to_bytes, otypes=[object])(array)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"with a wrong {name}: {error}") from None
    return array


def _to_bytes(text):
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode("utf-8")
    raise TypeError(f"expected text, got {text!r:.60}")


def _has_axes(shape, axes, sizes):
    """Returns whether a shape has the `sizes` of axes; adds unknown sizes."""
    if 0 in shape and len(axes) > 1:
        # Empty lists have lost their last axes.
        is_empty = [sizes.setdefault(axis, 0) == 0 for axis in axes[1:]]
        return shape[0] == sizes["B"] and any(is_empty)
    return len(shape) == len(axes) and all(
        sizes.setdefault(axis, size) == size for axis, size in zip(axes, shape)
    )


def _validate_words(outputs, texts):
    """Raises ValueError for the index of a word that a text does not have."""
    translations = [
        each.decode("utf-8", "replace") for each in outputs["translation"]
    ]
    for name, lines in ("source_words", texts), ("target_words", translations):
        last = outputs[name].reshape(len(lines), -1).max(axis=1, initial=-1)
        if (last >= [len(line.split()) for line in lines]).any():
            raise ValueError(f"with {name} that the text does not have")
