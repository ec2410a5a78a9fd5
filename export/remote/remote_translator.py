"""Translates text by asking a server."""

import math
import time

from export.errors import InputError
from export.remote.served_model import Unavailable, unreadable
from export.server_runtime.library import ServerError
from export.server_runtime.tensors import as_array
from export.translators.text_translator import BLANK, LOWEST_SCORE, Translation
from export.translators.word_alignment import word_alignment

# Each signature's outputs that are needed: type and rank.
_OUTPUTS = {
    "serving_default": {"translation": ("string", 1), "score": ("float32", 1)},
    "n_best": {"translations": ("string", 2), "scores": ("float32", 2)},
    "align": {
        "translation": ("string", 1),
        "score": ("float32", 1),
        "source_tokens": ("string", 2),
        "target_tokens": ("string", 2),
        "alignment": ("float32", 3),
    },
}
# Exports of older versions do not say what they cut.
_TRUNCATED = "truncated"
_FIRST_PAUSE_SECONDS = 0.5


class RemoteTranslator:
    """The same calls as TextTranslator, answered by a server.

    Args:
        server: RestServer or GrpcServer.
        name: of the server, for messages.
        batch_size: sentences in a request; similar lengths go together.
        retries: how often a request is made again while the server cannot
            be reached or is too busy, after pauses of 0.5, 1, 2, 4, ... s.
        sleep: what pauses for a number of seconds.
    """

    def __init__(self, server, name, batch_size, retries, sleep=time.sleep):
        self._server = server
        self._name = name
        self._batch_size = batch_size
        self._retries = retries
        self._sleep = sleep

    def n_best(self, texts, n, on_progress=None):
        """Finds the n best translations; see `TextTranslator.n_best`.

        Raises:
            InputError: the server does not answer, not as it should, or has
                fewer beams.
        """
        if n == 1:
            return self._in_batches(texts, self._best, on_progress)
        return self._in_batches(
            texts, lambda batch: self._several(batch, n), on_progress
        )

    def align(self, texts, on_progress=None):
        """Translates and aligns; see `TextTranslator.align`.

        Raises:
            InputError: the server does not answer, or not as it should.
        """
        found = self._in_batches(texts, self._aligned, on_progress)
        return [translations[0] for translations in found]

    def _in_batches(self, texts, ask, on_progress):
        answers = [[BLANK] for _ in texts]
        numbers = [i for i, text in enumerate(texts) if text.strip()]
        numbers.sort(key=lambda number: len(texts[number]), reverse=True)
        for start in range(0, len(numbers), self._batch_size):
            batch = numbers[start : start + self._batch_size]
            found = ask([texts[number] for number in batch])
            for number, translations in zip(batch, found):
                answers[number] = translations
            if on_progress is not None:
                on_progress(len(batch))
        return answers

    def _best(self, texts):
        answer = self._ask("serving_default", texts)
        rows = zip(answer["translation"], answer["score"], answer[_TRUNCATED])
        return [
            [Translation(_str(text), float(score), (), bool(is_cut))]
            for text, score, is_cut in rows
        ]

    def _several(self, texts, n):
        answer = self._ask("n_best", texts)
        beams = answer["scores"].shape[1]
        if n > beams:
            raise InputError(
                f"--n_best={n} is more than the {beams} translations that "
                f"{self._name} gives; ask for fewer, or export the model with "
                "more beams."
            )
        rows = zip(answer["translations"], answer["scores"], answer[_TRUNCATED])
        return [
            [
                Translation(_str(text), float(score), (), bool(is_cut))
                for text, score in zip(some[:n], scores[:n])
                if score > LOWEST_SCORE
            ]
            or [BLANK]
            for some, scores, is_cut in rows
        ]

    def _aligned(self, texts):
        answer = self._ask("align", texts)
        names = (*_OUTPUTS["align"], _TRUNCATED)
        return [
            [_aligned(text, *row)]
            for text, *row in zip(texts, *(answer[name] for name in names))
        ]

    def _ask(self, signature, texts):
        """Returns the outputs as arrays, each checked."""
        outputs = self._patiently(signature, texts)
        kinds = _OUTPUTS[signature]
        answer = {
            name: self._checked(name, outputs.get(name), *kind, len(texts))
            for name, kind in kinds.items()
        }
        if not _fit_together(answer):
            raise unreadable(self._name, "outputs that do not fit together")
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
            raise unreadable(self._name, f"without the output {name}")
        try:
            array = as_array(value, dtype)
        except (ServerError, ValueError) as error:
            raise unreadable(
                self._name, f"an output {name} that is not right: {error}"
            ) from None
        if array.shape[:1] != (count,):
            found = array.shape[0] if array.ndim else "no"
            raise unreadable(
                self._name, f"{found} of {name} for {count} sentences"
            )
        # Lists cannot say how long the rows are of what holds nothing.
        is_told = array.size or rank == 1
        if is_told and array.ndim != rank:
            raise unreadable(self._name, f"a {name} of shape {array.shape}")
        return array


def _aligned(text, translation, score, source, target, attention, is_cut):
    links = word_alignment(text, _strs(source), _strs(target), attention)
    return Translation(_str(translation), float(score), links, bool(is_cut))


def _fit_together(answer):
    if "scores" in answer:
        return answer["scores"].shape == answer["translations"].shape
    if "alignment" in answer:
        source, target = answer["source_tokens"], answer["target_tokens"]
        shape = (*target.shape, source.shape[1])
        found = answer["alignment"]
        return found.shape == shape or found.size == math.prod(shape) == 0
    return True


def _str(text):
    return text.decode("utf-8", "replace")


def _strs(texts):
    return [_str(text) for text in texts]
