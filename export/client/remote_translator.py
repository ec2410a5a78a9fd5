"""Translates text with a model on TensorFlow Serving."""

import math
import time

import numpy as np

from export.client.served_model import UnavailableError
from export.common.errors import InputError
from export.translators.batches import by_count
from export.translators.text_translator import Sentence, SignatureTranslator

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


class RemoteTranslator(SignatureTranslator):
    """A TextTranslator that sends its batches to a server.

    Its methods raise InputError if the server does not answer, gives an
    unexpected answer, or has fewer beams than requested translations.

    Args:
        server: ModelServer.
        batch_size: sentences in a request, of similar lengths.
        retries: maximum number of retries of a request while the server is
            unreachable or too busy, after pauses of 0.5, 1, 2, 4, ... s.
        sleep: function that pauses for a number of seconds.
    """

    beam_size = None
    # With several threads, Ctrl-C would wait for a server that hangs.
    num_threads = 1

    def __init__(self, server, batch_size, retries, sleep=time.sleep):
        self._server = server
        self.name = server.address
        self._batch_size = batch_size
        self._retries = retries
        self._sleep = sleep

    def _sentences(self, texts):
        # Only the server can count tokens; characters sort them equally well.
        return [
            Sentence(text, (), len(text) + 1 if text.strip() else 1, False)
            for text in texts
        ]

    def _batches(self, lengths):
        return by_count(lengths, self._batch_size)

    def _predict(self, signature, texts):
        outputs = self._predict_with_retries(signature, texts)
        if {"tree", "trees"} & set(outputs):
            raise InputError(
                f"Expected translations from {self.name}, got the trees of a "
                "parser; name a translator with --model_name."
            )
        kinds = _OUTPUTS[signature] | {"truncated": ("bool", 1)}
        try:
            answer = {
                name: _to_array(name, outputs[name], *kind, len(texts))
                for name, kind in kinds.items()
            }
            _check_shapes(answer, texts)
        except KeyError as error:
            reason = f"without the output {error.args[0]}"
            raise self._server.error("unreadable", reason) from None
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
