"""Compares an export's answers with those of its model directory.

An answer is a pair: content, which must be equal to the expected content, and
scores, which may differ by rounding.
"""

import abc
import dataclasses
import typing

import numpy as np

from export.common.errors import InputError
from export.serving.export_directory import select_inputs
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids
from export.translators.text_translator import IMPOSSIBLE, word_alignment

# Absolute, and relative to the score: rounding differs between batches.
_TOLERANCE, _RELATIVE_TOLERANCE = 1e-4, 1e-5


@dataclasses.dataclass
class Comparison:
    """Result of comparing the answers of one signature.

    Of `texts` answers, `equal` have exactly the expected content; `difference`
    is the largest of two scores, and `first` describes the first answer that
    differs, or is None.
    """

    texts: int = 0
    equal: int = 0
    difference: float = 0.0
    first: str | None = None

    def add(self, text, answer, expected):
        """Adds the answer to a text, and the expected one."""
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


class Signature(typing.NamedTuple):
    """How the answers of one signature are compared.

    `expected` is a function of a Translator or Parser that returns the answers
    to the reader's texts, `read` one of a row of the outputs, a dict.
    """

    expected: typing.Callable
    read: typing.Callable


class AnswerReader(abc.ABC):
    """Makes requests from texts and compares the answers.

    `vocabulary` is the bytes of the model directory's vocabulary, `limits` a
    dict of the export's description, `signatures` one of names to Signature,
    and `settings` the names of the limits to pass to the model's search.
    """

    settings = ()

    def __init__(self, vocabulary, texts, limits):
        self._source, self._target = load_python_tokenizers(vocabulary)
        self._texts = texts
        self._translations = texts[::-1]
        self._beam_size = limits["beam_size"]
        self._max_source_tokens = limits["max_source_tokens"]
        self.signatures = self._signatures()

    def validate(self, names):
        """Raises InputError if a name is not a known signature."""
        unknown = set(names).difference(self.signatures)
        if unknown:
            raise InputError(
                f"Expected the signatures {', '.join(self.signatures)}, got "
                f"{', '.join(sorted(unknown))}, which cannot be compared; omit "
                "--model_dir."
            )

    def inputs(self, names, start, end):
        """Returns a request of texts[start:end] with inputs of these names."""
        texts = self._texts[start:end]
        ids = pad_ids([self._source.ids(text) for text in texts])
        return select_inputs(names, texts, self._translations[start:end], ids)

    def compare(self, name, outputs, model):
        """Returns the Comparison of a signature's outputs with the model's.

        `outputs` is a list of dicts of arrays, one for each request.
        """
        signature = self.signatures[name]
        comparison = Comparison()
        rows = [
            dict(zip(each, row))
            for each in outputs
            for row in zip(*each.values())
        ]
        for text, row, right in zip(
            self._texts, rows, signature.expected(model), strict=True
        ):
            comparison.add(text, signature.read(row), right)
        return comparison

    @abc.abstractmethod
    def _signatures(self):
        pass

    def _ranked(self, results):
        """Returns texts and scores, padded to the beam size."""
        missing = self._beam_size - len(results)
        texts = [each.text for each in results] + [""] * missing
        return texts, [each.score for each in results] + [IMPOSSIBLE] * missing


class TranslationReader(AnswerReader):
    """Compares the answers of a translator's export."""

    settings = (
        *("beam_size", "alpha", "stop_criterion"),
        *("max_source_tokens", "max_extra_tokens"),
    )

    def _signatures(self):
        return {
            "serving_default": Signature(self._best, _read_best),
            "n_best": Signature(self._n_best, _read_n_best),
            "align": Signature(self._aligned, _read_aligned),
            "tokens": Signature(self._n_best, self._read_tokens),
            "score": Signature(self._scored, _read_score),
            "lengths": Signature(self._counted, _read_length),
        }

    def _best(self, model):
        return [
            ([each.text, each.source_truncated], each.score)
            for each in model.translate(self._texts)
        ]

    def _n_best(self, model):
        return [
            ([*texts, results[0].source_truncated], scores)
            for results in model.n_best(self._texts, self._beam_size)
            for texts, scores in [self._ranked(results)]
        ]

    def _aligned(self, model):
        return [
            ([each.text, each.alignment, each.source_truncated], each.score)
            for each in model.align(self._texts)
        ]

    def _scored(self, model):
        pairs = model.encode_pairs(self._texts, self._translations)
        scores = model.score(self._texts, self._translations)
        return [
            ([pair.source_truncated or pair.target_truncated], score)
            for pair, score in zip(pairs, scores)
        ]

    def _counted(self, model):
        lengths = [len(self._source.ids(text)) for text in self._texts]
        limit = self._max_source_tokens
        return [
            ([length, limit, sentence.truncated], 0.0)
            for length, sentence in zip(lengths, model.sentences(self._texts))
        ]

    def _read_tokens(self, row):
        texts = [self._target.text(ids) for ids in row["ids"].tolist()]
        return [*texts, bool(row["truncated"])], row["scores"]


def _read_best(row):
    text = row["translation"].decode("utf-8")
    return [text, bool(row["truncated"])], row["score"]


def _read_n_best(row):
    texts = _decode(row["translations"])
    return [*texts, bool(row["truncated"])], row["scores"]


def _read_aligned(row):
    alignment = word_alignment(
        row["source_words"], row["target_words"], row["alignment"]
    )
    (text, truncated), score = _read_best(row)
    return [text, alignment, truncated], score


def _read_score(row):
    return [bool(row["truncated"])], row["score"]


def _read_length(row):
    content = [int(row["length"]), int(row["limit"]), bool(row["truncated"])]
    return content, 0.0


class TreeReader(AnswerReader):
    """Compares the answers of a parser's export."""

    settings = ("beam_size", "alpha")

    def _signatures(self):
        return {
            "serving_default": Signature(self._best, _read_tree),
            "n_best": Signature(self._n_best, _read_trees),
        }

    def _best(self, model):
        return [
            ([each.text], each.score) for (each,) in model.parse(self._texts)
        ]

    def _n_best(self, model):
        return [*map(self._ranked, model.parse(self._texts, self._beam_size))]


def _read_tree(row):
    return [row["tree"].decode("utf-8")], row["score"]


def _read_trees(row):
    return _decode(row["trees"]), row["scores"]


def _decode(texts):
    return [text.decode("utf-8") for text in texts]


READERS = {"translation": TranslationReader, "parsing": TreeReader}
