"""Translates with the signatures of a SavedModel."""

import abc

from export.common.errors import InputError
from export.translators.text_translator import (
    TextTranslator,
    drop_impossible,
    word_alignment,
)


class SignatureTranslator(TextTranslator):
    """A TextTranslator whose answers are outputs of signatures.

    `name` is that of the export or server, for messages.
    """

    name = ""

    @abc.abstractmethod
    def _predict(self, signature, texts):
        """Returns a signature's outputs, a dict of arrays; text is bytes."""

    def _search(self, sentences, n, align):
        texts = [sentence.text for sentence in sentences]
        alignments = [()] * len(texts)
        if align:
            outputs = self._predict("align", texts)
            alignments = map(
                word_alignment, *alignment_outputs(outputs, self.name)
            )
        else:
            signature = "serving_default" if n == 1 else "n_best"
            outputs = self._predict(signature, texts)
        if "scores" in outputs:
            beams = outputs["scores"].shape[1]
            if n > beams:
                raise InputError(
                    f"--n_best={n} is more than the {beams} translations of "
                    f"{self.name}; ask for fewer, or export the model with "
                    "more beams."
                )
            rows = [_decode(row[:n]) for row in outputs["translations"]]
            scores = outputs["scores"][:, :n].tolist()
        else:
            rows = [[text] for text in _decode(outputs["translation"])]
            scores = outputs["score"][:, None].tolist()
        truncated = outputs["truncated"].tolist()
        return [*map(drop_impossible, rows, scores, alignments, truncated)]


def alignment_outputs(outputs, name):
    """Returns the arguments of `word_alignment` from outputs of `align`.

    Raises InputError if an output is missing.
    """
    names = ("source_words", "target_words", "alignment")
    if not outputs.keys() >= set(names):
        raise InputError(
            f"{name} lacks the word indices of its alignments; export its "
            "model again with export.saved_model."
        )
    return [outputs[each] for each in names]


def _decode(texts):
    return [text.decode("utf-8", "replace") for text in texts]
