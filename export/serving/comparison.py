"""An export's answers beside those of its model directory."""

import dataclasses

import numpy as np

from export.tokenizers.plain import load_plain_tokenizers
from export.translators.signature_translator import alignment_outputs
from export.translators.text_ids import padded
from export.translators.text_translator import IMPOSSIBLE
from export.translators.word_alignment import word_alignment

# Rounding differs between batches: absolutely, and for a part of the score.
_TOLERANCE, _SHARE = 1e-4, 1e-5


@dataclasses.dataclass
class Comparison:
    """What comparing one signature's answers has shown so far.

    Attributes:
        texts: how many were asked for.
        equal: of those, how many answers had the very same text.
        difference: the largest of two scores.
        first: what the first answer is that differs, or None.
    """

    texts: int = 0
    equal: int = 0
    difference: float = 0.0
    first: str | None = None

    def add(self, text, found, expected, scores, expected_scores):
        """Adds one answer: its text and its scores, an array or one."""
        scores, expected_scores = np.array(scores), np.array(expected_scores)
        apart = np.abs(scores - expected_scores)
        self.texts += 1
        self.equal += found == expected
        self.difference = max(self.difference, float(apart.max(initial=0.0)))
        allowed = _TOLERANCE + _SHARE * np.abs(expected_scores)
        if self.first is None and found != expected:
            self.first = f"{found!r} where {expected!r} is right, for {text!r}"
        elif self.first is None and not (apart <= allowed).all():
            self.first = (
                f"a score of {scores} where {expected_scores} is right, for "
                f"{text!r}"
            )


class ModelAnswers:
    """A model directory's answers to some texts, and questions of them.

    Args:
        vocabulary: bytes of the SentencePiece model.
        texts: list of str.
        answers: dict of export.serving.model_answers.
        limits: dict of the export's description.

    Attributes:
        signatures: what is compared of each signature, by its name: functions
            of ModelAnswers, a text's number and the answer, that give what
            was found and what is right: a list, and scores.
        settings: which of the limits make the model directory answer alike.
    """

    signatures = {}
    settings = ()

    def __init__(self, vocabulary, texts, answers, limits):
        del vocabulary
        self._texts = texts
        self._answers = answers
        self._beam_size = limits["beam_size"]
        self._most = limits["max_source_tokens"]

    def inputs(self, signature, start, end):
        """Returns the inputs of a request about the texts from start to end."""
        del signature
        return {"text": self._texts[start:end]}

    def compare(self, signature, start, outputs, comparison):
        """Compares the answers to a request, the first one of text `start`.

        Args:
            signature: name of one of `signatures`.
            start: number of the first text.
            outputs: dict of arrays.
            comparison: Comparison to add to.
        """
        for place, row in enumerate(zip(*outputs.values()), start):
            item = dict(zip(outputs, row))
            pair = self._pair(signature, place, item)
            comparison.add(self._texts[place], *pair)

    def _pair(self, signature, place, item):
        return self.signatures[signature](self, place, item)

    def _all(self, place, scores):
        """What is right of n_best: texts, and scores beside those given."""
        expected = self._answers["n_best"][place]
        missing = self._beam_size - len(expected)
        texts, right = zip(*expected, *[("", IMPOSSIBLE)] * missing)
        return list(texts), scores, right


class TranslatorAnswers(ModelAnswers):
    """See the base class; the answers are those of `translations`."""

    settings = (
        *("beam_size", "alpha", "stop"),
        *("max_source_tokens", "max_output_extra"),
    )

    def __init__(self, vocabulary, texts, answers, limits):
        super().__init__(vocabulary, texts, answers, limits)
        self._source, self._target = load_plain_tokenizers(vocabulary)

    def inputs(self, signature, start, end):
        """See the base class."""
        inputs = super().inputs(signature, start, end)
        if signature == "tokens":
            return {
                "ids": padded(
                    [self._source.ids(text) for text in inputs["text"]]
                )
            }
        if signature == "score":
            best = self._answers["best"][start:end]
            inputs["translation"] = [text for text, _ in best]
        return inputs

    def _pair(self, signature, place, item):
        found, expected, *scores = super()._pair(signature, place, item)
        # As text, the longest translation may have more pieces than it had.
        name = "scores_truncated" if signature == "score" else "truncated"
        return (
            [*found, bool(item["truncated"])],
            [*expected, self._answers[name][place]],
            *scores,
        )

    def _best(self, place, item):
        text, score = self._answers["best"][place]
        found = item["translation"].decode("utf-8")
        return [found], [text], item["score"], score

    def _n_best(self, place, item):
        found = [text.decode("utf-8") for text in item["translations"]]
        return found, *self._all(place, item["scores"])

    def _tokens(self, place, item):
        found = [self._target.text(row) for row in item["ids"].tolist()]
        return found, *self._all(place, item["scores"])

    def _align(self, place, item):
        text, score, links = self._answers["alignments"][place]
        found = word_alignment(*alignment_outputs(item, "The export"))
        return (
            [item["translation"].decode("utf-8"), *map(list, found)],
            [text, *map(list, links)],
            item["score"],
            score,
        )

    def _score(self, place, item):
        return [], [], item["score"], self._answers["scores"][place]

    def _lengths(self, place, item):
        found = [int(item["length"]), int(item["limit"])]
        text = self._texts[place]
        expected = [len(self._source.ids(text)), self._most]
        return found, expected, 0.0, 0.0

    signatures = {
        "serving_default": _best,
        "n_best": _n_best,
        "align": _align,
        "tokens": _tokens,
        "score": _score,
        "lengths": _lengths,
    }


class ParserAnswers(ModelAnswers):
    """See the base class; the answers are those of `parses`."""

    settings = ("beam_size", "alpha")

    def _best(self, place, item):
        text, score = self._answers["best"][place]
        return [item["tree"].decode("utf-8")], [text], item["score"], score

    def _n_best(self, place, item):
        found = [text.decode("utf-8") for text in item["trees"]]
        return found, *self._all(place, item["scores"])

    signatures = {"serving_default": _best, "n_best": _n_best}


# By what the model was trained for.
ANSWERS = {"translation": TranslatorAnswers, "parsing": ParserAnswers}
