"""Compares an export's answers with those of its model directory."""

import abc
import dataclasses

import numpy as np

from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.signature_translator import alignment_outputs
from export.translators.text_ids import padded
from export.translators.text_translator import IMPOSSIBLE
from export.translators.word_alignment import word_alignment

# Rounding differs between batches: absolute, and relative to the score.
_TOLERANCE, _RELATIVE_TOLERANCE = 1e-4, 1e-5


@dataclasses.dataclass
class Comparison:
    """The result of comparing the answers of one signature.

    Attributes:
        texts: number of answers compared.
        equal: how many of them had exactly the expected content.
        difference: the largest difference of two scores.
        first: describes the first answer that differs; None for none.
    """

    texts: int = 0
    equal: int = 0
    difference: float = 0.0
    first: str | None = None

    def add(self, text, answer, expected):
        """Adds an answer to a text; both are pairs of content and scores."""
        (content, scores), (right, right_scores) = answer, expected
        scores, right_scores = np.array(scores), np.array(right_scores)
        differences = np.abs(scores - right_scores)
        allowed = _TOLERANCE + _RELATIVE_TOLERANCE * np.abs(right_scores)
        self.texts += 1
        self.equal += content == right
        largest = float(differences.max(initial=0.0))
        self.difference = max(self.difference, largest)
        if self.first is None and content != right:
            self.first = f"expected {right!r}, got {content!r} for {text!r}"
        elif self.first is None and not (differences <= allowed).all():
            self.first = (
                f"expected a score of {right_scores}, got {scores} for {text!r}"
            )


class AnswerReader(abc.ABC):
    """Asks an export about texts and reads its answers.

    An answer, and what is expected of it, is a pair: content, which must be
    equal, and scores, which may differ by rounding.

    Args:
        vocabulary: bytes of the model directory's vocabulary.
        texts: list of str.
        limits: dict of the export's description.

    Attributes:
        texts: as given.
        translations: list of str to score, one for each text.
        signatures: names of the signatures that it can read.
        settings: names of the limits that the model's search must share.
    """

    signatures = ()
    settings = ()

    def __init__(self, vocabulary, texts, limits):
        self._source, self._target = load_python_tokenizers(vocabulary)
        self.texts = texts
        self.translations = texts[::-1]
        self._beam_size = limits["beam_size"]
        self._max_source_tokens = limits["max_source_tokens"]

    def inputs(self, names, start, end):
        """Returns a request about the texts from start to end.

        Args:
            names: of the signature's inputs.
            start: number of the first text.
            end: number after the last.
        """
        texts = self.texts[start:end]
        values = {
            "text": texts,
            "translation": self.translations[start:end],
            "ids": padded([self._source.ids(text) for text in texts]),
        }
        return {name: values[name] for name in names}

    def compare(self, signature, outputs, expected):
        """Compares the answers of a signature.

        Args:
            signature: its name.
            outputs: list of dicts of arrays, a request each.
            expected: list of answers, one for each text.

        Returns:
            Comparison.
        """
        comparison = Comparison()
        rows = [
            dict(zip(each, row))
            for each in outputs
            for row in zip(*each.values())
        ]
        for text, row, right in zip(self.texts, rows, expected, strict=True):
            comparison.add(text, self._read(signature, row), right)
        return comparison

    @abc.abstractmethod
    def expected(self, model):
        """Returns the model's answers: dict, signature to list.

        Args:
            model: Translator or Parser of the model directory.
        """

    @abc.abstractmethod
    def _read(self, signature, row):
        """Returns an answer from one row of the outputs, a dict."""

    def _ranked(self, found):
        """Returns texts and scores, filled up to all beams."""
        missing = self._beam_size - len(found)
        texts = [each.text for each in found] + [""] * missing
        return texts, [each.score for each in found] + [IMPOSSIBLE] * missing


class TranslationReader(AnswerReader):
    """Reads the answers of a translator's export."""

    signatures = (
        *("serving_default", "n_best", "align"),
        *("tokens", "score", "lengths"),
    )
    settings = (
        *("beam_size", "alpha", "stop"),
        *("max_source_tokens", "max_output_extra"),
    )

    def expected(self, model):
        """See the base class; `model` is a Translator."""
        best = model.translate(self.texts)
        truncated = [each.source_truncated for each in best]
        ranked = map(self._ranked, model.n_best(self.texts, self._beam_size))
        n_best = [
            ([*texts, cut], scores)
            for (texts, scores), cut in zip(ranked, truncated)
        ]
        lengths = [len(self._source.ids(text)) for text in self.texts]
        pairs = model.given_ids(self.texts, self.translations)
        scores = model.score(self.texts, self.translations)
        return {
            "serving_default": [
                ([each.text, each.source_truncated], each.score)
                for each in best
            ],
            "n_best": n_best,
            "tokens": n_best,
            "align": [
                ([each.text, each.alignment, each.source_truncated], each.score)
                for each in model.align(self.texts)
            ],
            "score": [
                ([pair.source_truncated or pair.target_is_cut], score)
                for pair, score in zip(pairs, scores)
            ],
            "lengths": [
                ([length, self._max_source_tokens, cut], 0.0)
                for length, cut in zip(lengths, truncated)
            ],
        }

    def _read(self, signature, row):
        truncated = bool(row["truncated"])
        if signature == "lengths":
            return [int(row["length"]), int(row["limit"]), truncated], 0.0
        if signature == "score":
            return [truncated], row["score"]
        if signature == "tokens":
            texts = [self._target.text(ids) for ids in row["ids"].tolist()]
            return [*texts, truncated], row["scores"]
        if signature == "n_best":
            return [*_decoded(row["translations"]), truncated], row["scores"]
        content = [row["translation"].decode("utf-8")]
        if signature == "align":
            content.append(
                word_alignment(*alignment_outputs(row, "The export"))
            )
        return [*content, truncated], row["score"]


class TreeReader(AnswerReader):
    """Reads the answers of a parser's export."""

    signatures = ("serving_default", "n_best")
    settings = ("beam_size", "alpha")

    def expected(self, model):
        """See the base class; `model` is a Parser."""
        n_best = model.parse(self.texts, self._beam_size)
        best = [each for (each,) in model.parse(self.texts)]
        return {
            "serving_default": [([each.text], each.score) for each in best],
            "n_best": [*map(self._ranked, n_best)],
        }

    def _read(self, signature, row):
        if signature == "n_best":
            return _decoded(row["trees"]), row["scores"]
        return [row["tree"].decode("utf-8")], row["score"]


def _decoded(texts):
    return [text.decode("utf-8") for text in texts]


# By what the model was trained for.
READERS = {"translation": TranslationReader, "parsing": TreeReader}
