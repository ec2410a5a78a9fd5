"""Compares the outputs of an export with those of its model directory.

The result for a text is a pair: content, which should be equal to the expected
content, and scores, which may differ by rounding.
"""

import abc
import dataclasses
import typing

import numpy as np

from export.common.errors import InputError
from export.serving.export_directory import (
    first_terms,
    language_pairs,
    read_export_languages,
    select_inputs,
)
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids
from export.translators.terms import Terms
from export.translators.translation import (
    IMPOSSIBLE_SCORE,
    Translation,
    word_attributes,
)


class Tolerance(typing.NamedTuple):
    """Differences that are allowed, since rounding depends on the batch."""

    absolute: float  # of scores
    relative: float  # to the score, added to `absolute`
    different_share: float  # of texts with other content


# By `quantization`: a different last bit may round an activation to another of
# 255 values.
_TOLERANCES = {
    None: Tolerance(1e-4, 1e-5, 0.0),
    "int8": Tolerance(0.05, 0.02, 0.1),
}


@dataclasses.dataclass
class Comparison:
    """Compares the results of one signature.

    Attributes:
        tolerance: Tolerance of the comparison.
        num_texts: number of compared texts.
        num_equal: number of texts with exactly the expected content.
        max_difference: largest difference of scores of equal content.
        first_different: description of the first text with other content, or
            None.
        first_inexact: the same, for the first one with equal content, but
            scores beyond the tolerance.
    """

    tolerance: Tolerance
    num_texts: int = 0
    num_equal: int = 0
    max_difference: float = 0.0
    first_different: str | None = None
    first_inexact: str | None = None

    @property
    def error(self):
        """Description of a text that must not differ, or None."""
        num_allowed = self.tolerance.different_share * self.num_texts
        if self.num_texts - self.num_equal > num_allowed:
            return self.first_different
        return self.first_inexact

    def add(self, text, result, expected_result):
        """Compares the result for a text."""
        content, scores = result
        expected, expected_scores = expected_result
        self.num_texts += 1
        if content != expected:
            self.first_different = self.first_different or (
                f"expected {expected}, got {content} for {text!r}"
            )
            return
        self.num_equal += 1
        differences = np.abs(np.subtract(scores, expected_scores))
        relative = self.tolerance.relative * np.abs(expected_scores)
        largest = float(differences.max(initial=0.0))
        self.max_difference = max(self.max_difference, largest)
        if not (differences <= self.tolerance.absolute + relative).all():
            self.first_inexact = self.first_inexact or (
                f"expected scores {expected_scores}, got {scores} for {text!r}"
            )


class ExportComparer(abc.ABC):
    """Creates requests from texts and compares their results.

    `vocabulary` is the bytes of the model directory's vocabulary, `description`
    that of the export. `settings` are the names of the limits to
    pass to the model's search. `expectations` has a function for each signature
    that returns the expected results for the texts, given a model.
    """

    settings = ()

    def __init__(self, vocabulary, texts, description):
        limits = description["limits"]
        self._source, self._target = load_python_tokenizers(vocabulary)
        self._languages = languages = read_export_languages(description)
        self._codes = language_pairs(languages, len(texts))
        if languages.codes and languages.target is None:
            texts = self._add_tags(texts)
        self._texts = texts
        self._translations = texts[::-1]
        self._beam_size = limits["beam_size"]
        self._max_source_tokens = limits["max_source_tokens"]
        self._tolerance = _TOLERANCES[limits.get("quantization")]
        self.expectations = self._expectations()

    def validate(self, names):
        """Raises InputError if a name is not a known signature."""
        unknown = set(names).difference(self.expectations)
        if unknown:
            raise InputError(
                f"Expected the signatures {', '.join(self.expectations)}, got "
                f"{', '.join(sorted(unknown))}, which cannot be compared; omit "
                "--model_dir, or export with --nocheck."
            )

    def inputs(self, names, start, end):
        """Returns a request of texts[start:end] with inputs of these names."""
        texts = self._texts[start:end]
        tagged_texts = map(self._languages.tag, texts)
        ids = pad_ids([self._source.ids(text) for text in tagged_texts])
        return select_inputs(
            names,
            texts,
            self._translations[start:end],
            ids,
            self._codes[start:end],
        )

    def compare(self, name, outputs, model):
        """Returns the Comparison of a signature's outputs with the model's.

        `outputs` is a list of dicts of arrays, one for each request.
        """
        comparison = Comparison(self._tolerance)
        results = [
            self._read_result(dict(zip(each, row)))
            for each in outputs
            for row in zip(*each.values())
        ]
        expected = self.expectations[name](model)
        for each in zip(self._texts, results, expected, strict=True):
            comparison.add(*each)
        return comparison

    def _add_tags(self, texts):
        return [
            self._languages.select(target=target).tag(text)
            for text, (_, target) in zip(texts, self._codes)
        ]

    @abc.abstractmethod
    def _expectations(self):
        """Returns a function of a Translator or Parser for each signature."""

    def _read_result(self, row):
        """Returns the result in the outputs for one text, a dict."""
        scores = row.get("score", row.get("scores", 0.0))
        content = {
            name: _to_python(value)
            for name, value in row.items()
            if name not in ("score", "scores")
        }
        return content, scores

    def _pad_n_best(self, translations):
        """Returns lists of texts and of scores, padded to the beam size."""
        missing = self._beam_size - len(translations)
        texts = [each.text for each in translations] + [""] * missing
        scores = [each.score for each in translations]
        return texts, scores + [IMPOSSIBLE_SCORE] * missing


def _to_python(value):
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray):
        return [*map(_to_python, value)]
    return value.item() if isinstance(value, np.generic) else value


class TranslationComparer(ExportComparer):
    """Compares the results of a translator's export."""

    settings = (
        *("beam_size", "alpha", "stop_criterion"),
        *("max_source_tokens", "max_extra_tokens", "quantization"),
    )

    def _expectations(self):
        expectations = {
            "serving_default": self._expect_translations,
            "translate_with_terms": self._expect_terms,
            "n_best": self._expect_n_best,
            "align": self._expect_alignments,
            "tokens": self._expect_n_best,
            "score": self._expect_scores,
            "lengths": self._expect_lengths,
        }
        if self._languages.codes:
            expectations["translate_languages"] = self._expect_languages
        return expectations

    def _expect_translations(self, model):
        return [
            _translation_result(each, each.score)
            for each in model.translate(self._texts)
        ]

    def _expect_terms(self, model):
        impossible = Translation("", IMPOSSIBLE_SCORE)
        expected = []
        for text, other in zip(self._texts, self._translations):
            pairs = first_terms(text, other)
            try:
                terms = Terms(pair[:2] for pair in pairs) if pairs else None
                (translation,) = model.translate([text], terms=terms)
            except InputError:
                (plain,) = model.translate([text])
                translation = dataclasses.replace(
                    impossible, source_truncated=plain.source_truncated
                )
            expected.append(_translation_result(translation, translation.score))
        return expected

    def _expect_languages(self, model):
        return [
            _translation_result(each, each.score)
            for each in model.translate(self._add_tags(self._texts))
        ]

    def _expect_n_best(self, model):
        expected = []
        for translations in model.n_best(self._texts, self._beam_size):
            texts, scores = self._pad_n_best(translations)
            truncated = translations[0].source_truncated
            content = {"translations": texts, "truncated": truncated}
            expected.append((content, scores))
        return expected

    def _expect_alignments(self, model):
        return [
            _translation_result(
                each,
                [each.score, *each.word_log_probs],
                alignment=each.alignment,
            )
            for each in model.align(self._texts)
        ]

    def _expect_scores(self, model):
        pairs = model.pairs(self._texts, self._translations)
        scores = model.score(self._texts, self._translations)
        truncated = [
            {"truncated": pair.source.truncated or pair.target.truncated}
            for pair in pairs
        ]
        return [*zip(truncated, scores)]

    def _expect_lengths(self, model):
        expected = []
        sentences = model.sentences(self._texts)
        targets = model.target_sentences(self._texts)
        for sentence, text, target in zip(sentences, self._texts, targets):
            content = {
                "length": len(self._source.ids(sentence.text)),
                "limit": self._max_source_tokens,
                "truncated": sentence.truncated,
                "translation_length": len(self._target.ids(text)),
                "translation_limit": model.backend.target_limit,
                "translation_truncated": target.truncated,
            }
            expected.append((content, 0.0))
        return expected

    def _read_result(self, row):
        if "alignment" in row:
            words = word_attributes(
                row.pop("source_words"),
                row.pop("target_words"),
                row["alignment"],
                row.pop("token_log_probs"),
            )
            row["alignment"] = words["alignment"]
            row["scores"] = [row.pop("score"), *words["word_log_probs"]]
            del row["source_tokens"], row["target_tokens"]
        if "ids" in row:
            ids = row.pop("ids").tolist()
            row["translations"] = [*map(self._target.text, ids)]
        return super()._read_result(row)


def _translation_result(translation, scores, **content):
    content["translation"] = translation.text
    content["truncated"] = translation.source_truncated
    return content, scores


class TreeComparer(ExportComparer):
    """Compares the results of a parser's export."""

    settings = ("beam_size", "alpha")

    def _expectations(self):
        return {
            "serving_default": self._expect_trees,
            "n_best": self._expect_n_best,
        }

    def _expect_trees(self, model):
        parses = model.parse(self._texts)
        return [({"tree": best.text}, best.score) for (best,) in parses]

    def _expect_n_best(self, model):
        expected = []
        for parses in model.parse(self._texts, self._beam_size):
            texts, scores = self._pad_n_best(parses)
            expected.append(({"trees": texts}, scores))
        return expected


COMPARERS = {"translation": TranslationComparer, "parsing": TreeComparer}
