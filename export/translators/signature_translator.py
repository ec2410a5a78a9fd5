"""Translates text by what the signatures of a SavedModel answer."""

import abc

import numpy as np

from export.common.errors import InputError
from export.translators.text_translator import TextTranslator, possible
from export.translators.word_alignment import word_alignment


class SignatureTranslator(TextTranslator):
    """A TextTranslator whose answers come from a SavedModel's signatures.

    Attributes:
        name: of what answers, for messages.
    """

    name = ""

    @abc.abstractmethod
    def _ask(self, signature, texts):
        """Returns a signature's outputs, a dict of arrays, text as bytes."""

    def _search(self, sentences, n, align):
        """See the base class."""
        texts = [sentence.text for sentence in sentences]
        if align:
            found = self._ask("align", texts)
            links = map(word_alignment, *alignment_outputs(found, self.name))
        else:
            found = self._ask("serving_default" if n == 1 else "n_best", texts)
            links = [()] * len(texts)
        if "scores" in found:
            beams = found["scores"].shape[1]
            if n > beams:
                raise InputError(
                    f"--n_best={n} is more than the {beams} translations that "
                    f"{self.name} gives; ask for fewer, or export the model "
                    "with more beams."
                )
            rows = [_strs(row[:n]) for row in found["translations"]]
            scores = found["scores"][:, :n].tolist()
        else:
            rows = [[text] for text in _strs(found["translation"])]
            scores = found["score"][:, None].tolist()
        cut = found.get("truncated", np.zeros(len(texts), bool)).tolist()
        return [possible(*row) for row in zip(rows, scores, links, cut)]


def alignment_outputs(outputs, name):
    """Returns what `word_alignment` takes, of the outputs of `align`.

    Args:
        outputs: dict of arrays.
        name: of what answered, for messages.

    Raises:
        InputError: an export of an older version gives pieces alone.
    """
    names = ("source_words", "target_words", "alignment")
    if not outputs.keys() >= set(names):
        raise InputError(
            f"{name} does not tell the words of its alignments; export its "
            "model again with export.saved_model."
        )
    return [outputs[each] for each in names]


def _strs(texts):
    return [text.decode("utf-8", "replace") for text in texts]
