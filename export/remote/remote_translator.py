"""Translates text by asking a server."""

import math
import time

from export.remote.served_model import (
    Unavailable,
    no_translator,
    unreadable,
)
from export.server_runtime.library import ServerError
from export.server_runtime.tensors import as_array
from export.translators.batches import by_count
from export.translators.signature_translator import SignatureTranslator
from export.translators.text_translator import Sentence

# Each signature's outputs that are needed: type and rank.
_OUTPUTS = {
    "serving_default": {"translation": ("string", 1), "score": ("float32", 1)},
    "n_best": {"translations": ("string", 2), "scores": ("float32", 2)},
    "align": {
        "translation": ("string", 1),
        "score": ("float32", 1),
        "source_words": ("int32", 3),
        "target_words": ("int32", 3),
        "alignment": ("float32", 3),
    },
}
# Exports of older versions do not say what they truncated.
_TRUNCATED = "truncated"
_FIRST_PAUSE_SECONDS = 0.5


class RemoteTranslator(SignatureTranslator):
    """The same calls as TextTranslator, answered by a server.

    All raise InputError where the server does not answer, or not as it should,
    or has fewer beams than translations are asked for.

    Args:
        server: RestServer or GrpcServer.
        name: of the server, for messages.
        batch_size: sentences in a request; similar lengths go together.
        retries: how often a request is made again while the server cannot
            be reached or is too busy, after pauses of 0.5, 1, 2, 4, ... s.
        sleep: what pauses for a number of seconds.
    """

    beam_size = None

    def __init__(self, server, name, batch_size, retries, sleep=time.sleep):
        self._server = server
        self.name = name
        self._batch_size = batch_size
        self._retries = retries
        self._sleep = sleep

    def _sentences(self, texts):
        # The server alone knows pieces; characters order them as well.
        return [
            Sentence(text, (), len(text) + 1 if text.strip() else 1, False)
            for text in texts
        ]

    def _batches(self, lengths):
        return by_count(lengths, self._batch_size)

    def _at_once(self):
        # With several, Ctrl-C would wait for a server that hangs.
        return 1

    def _ask(self, signature, texts):
        """Returns the outputs as arrays, each checked."""
        outputs = self._patiently(signature, texts)
        if {"tree", "trees"} & set(outputs):
            raise no_translator(self.name)
        kinds = _OUTPUTS[signature]
        answer = {
            name: self._checked(name, outputs.get(name), *kind, len(texts))
            for name, kind in kinds.items()
        }
        if not _fit_together(answer, texts):
            raise unreadable(self.name, "outputs that do not fit together")
        given = outputs.get(_TRUNCATED, [False] * len(texts))
        answer[_TRUNCATED] = self._checked(
            _TRUNCATED, given, "bool", 1, len(texts)
        )
        return answer

    def _patiently(self, signature, texts):
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(self._retries):
            try:
                return self._server.ask(signature, texts)
            except Unavailable:
                self._sleep(pause)
                pause *= 2
        return self._server.ask(signature, texts)

    def _checked(self, name, value, dtype, rank, count):
        if value is None:
            raise unreadable(self.name, f"without the output {name}")
        try:
            array = as_array(value, dtype)
        except (ServerError, ValueError) as error:
            raise unreadable(
                self.name, f"an output {name} that is not right: {error}"
            ) from None
        if array.shape[:1] != (count,):
            found = array.shape[0] if array.ndim else "no"
            raise unreadable(
                self.name, f"{found} of {name} for {count} sentences"
            )
        # Lists cannot say how long the rows are of what holds nothing.
        is_told = array.size or rank == 1
        if is_told and array.ndim != rank:
            raise unreadable(self.name, f"a {name} of shape {array.shape}")
        return array


def _fit_together(answer, texts):
    if "scores" in answer:
        return answer["scores"].shape == answer["translations"].shape
    if "alignment" not in answer:
        return True
    found, sides = answer["alignment"], []
    translations = [each.decode("utf-8") for each in answer["translation"]]
    for name, lines in (("target", translations), ("source", texts)):
        words = answer[f"{name}_words"]
        if not words.size:
            words = words.reshape(len(lines), 0, 2)
        sides.append(words.shape[1])
        most = [len(line.split()) for line in lines]
        if (
            words.shape[2] != 2
            or (words.max(axis=(1, 2), initial=-1) >= most).any()
        ):
            return False
        answer[f"{name}_words"] = words
    shape = (len(texts), *sides)
    return found.shape == shape or found.size == math.prod(shape) == 0
