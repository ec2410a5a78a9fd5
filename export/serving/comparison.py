"""Compares an export's answers with those of its model directory.

An answer is a pair: content, which must be equal to the expected content, and
scores, which may differ by rounding.
"""

import abc
import dataclasses

import numpy as np

from export.common.errors import InputError
from export.serving.export_directory import select_inputs
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids
from export.translators.text_translator import IMPOSSIBLE_SCORE, word_alignment

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


class ExportComparer(abc.ABC):
    """Makes requests from texts and compares the answers.

    `vocabulary` is the bytes of the model directory's vocabulary, `limits` a
    dict of the export's description. `settings` are the names of the limits to
    pass to the model's search, and `signatures` a dict of names to functions
    of a Translator or Parser that return the expected answers to the texts.
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
        comparison = Comparison()
        rows = [
            dict(zip(each, row))
            for each in outputs
            for row in zip(*each.values())
        ]
        for text, row, expected in zip(
            self._texts, rows, self.signatures[name](model), strict=True
        ):
            comparison.add(text, self._read(row), expected)
        return comparison

    @abc.abstractmethod
    def _signatures(self):
        pass

    def _read(self, row):
        """Returns the answer in a row of the outputs, a dict."""
        scores = row.get("score", row.get("scores", 0.0))
        content = {
            name: _to_python(value)
            for name, value in row.items()
            if name not in ("score", "scores")
        }
        return content, scores

    def _ranked(self, name, results):
        """Returns an answer of texts and scores, padded to the beam size."""
        missing = self._beam_size - len(results)
        texts = [each.text for each in results] + [""] * missing
        scores = [each.score for each in results] + [IMPOSSIBLE_SCORE] * missing
        return {name: texts}, scores


def _to_python(value):
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray):
        return [*map(_to_python, value)]
    return value.item() if isinstance(value, np.generic) else value


class TranslationComparer(ExportComparer):
    """Compares the answers of a translator's export."""

    settings = (
        *("beam_size", "alpha", "stop_criterion"),
        *("max_source_tokens", "max_extra_tokens"),
    )

    def _signatures(self):
        return {
            "serving_default": self._best,
            "n_best": self._n_best,
            "align": self._aligned,
            "tokens": self._n_best,
            "score": self._scored,
            "lengths": self._counted,
        }

    def _best(self, model):
        return [_answer(each) for each in model.translate(self._texts)]

    def _n_best(self, model):
        answers = []
        for results in model.n_best(self._texts, self._beam_size):
            content, scores = self._ranked("translations", results)
            content["truncated"] = results[0].source_truncated
            answers.append((content, scores))
        return answers

    def _aligned(self, model):
        return [
            _answer(each, alignment=each.alignment)
            for each in model.align(self._texts)
        ]

    def _scored(self, model):
        pairs = model.encode_pairs(self._texts, self._translations)
        scores = model.score(self._texts, self._translations)
        return [
            (
                {"truncated": pair.source_truncated or pair.target_truncated},
                score,
            )
            for pair, score in zip(pairs, scores)
        ]

    def _counted(self, model):
        return [
            (
                {
                    "length": len(self._source.ids(text)),
                    "limit": self._max_source_tokens,
                    "truncated": sentence.truncated,
                },
                0.0,
            )
            for text, sentence in zip(self._texts, model.sentences(self._texts))
        ]

    def _read(self, row):
        row = dict(row)
        if "alignment" in row:
            links = word_alignment(
                row["source_words"], row["target_words"], row["alignment"]
            )
            names = ("translation", "truncated", "score")
            row = {name: row[name] for name in names} | {"alignment": links}
        if "ids" in row:
            ids = row.pop("ids").tolist()
            row["translations"] = [*map(self._target.text, ids)]
        return super()._read(row)


def _answer(result, **content):
    content |= {
        "translation": result.text,
        "truncated": result.source_truncated,
    }
    return content, result.score


class TreeComparer(ExportComparer):
    """Compares the answers of a parser's export."""

    settings = ("beam_size", "alpha")

    def _signatures(self):
        return {"serving_default": self._best, "n_best": self._n_best}

    def _best(self, model):
        return [
            ({"tree": each.text}, each.score)
            for (each,) in model.parse(self._texts)
        ]

    def _n_best(self, model):
        rows = model.parse(self._texts, self._beam_size)
        return [self._ranked("trees", results) for results in rows]


COMPARERS = {"translation": TranslationComparer, "parsing": TreeComparer}
