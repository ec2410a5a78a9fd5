"""Translates text by the signatures of an export or server."""

import abc

from export.common.errors import InputError
from export.translators.terms import request_inputs
from export.translators.text_translator import (
    Sentence,
    TextTranslator,
    drop_impossible,
    word_attributes,
)


class SignatureTranslator(TextTranslator):
    """Base of translators by an export or server, whose messages say `name`."""

    name = ""
    aligns_terms = False

    @abc.abstractmethod
    def _predict(self, signature, texts, **inputs):
        """Returns a signature's outputs, a dict of arrays; text is bytes.

        `inputs` are others than `text`, lists of lists of str.
        """

    def _validate_terms(self, terms):
        if "rare" in terms.keep:
            raise InputError(
                f"{self.name} does not tell which characters are rare: give "
                "others to --keep, or use the model directory."
            )

    def _tokenize(self, texts):
        # Only the model can count tokens; characters sort texts equally well.
        return [
            Sentence(text, (), len(text) + 1 if text.strip() else 1, False)
            for text in texts
        ]

    def _search(self, sentences, n, align):
        texts = [sentence.text for sentence in sentences]
        terms = [sentence.terms for sentence in sentences]
        if any(terms) and (align or n > 1):
            raise InputError(
                f"{self.name} is an export, which gives only the best "
                "translation with terms, without alignments: omit --n_best, "
                "--alignments and --confidence, or --terms and --keep, or use "
                "the model directory."
            )
        if n > 1:
            outputs = self._predict("n_best", texts)
            beams = outputs["scores"].shape[1]
            if n > beams:
                raise InputError(
                    f"Expected at most {beams} translations, the beam size of "
                    f"{self.name}, got {n}; export the model with more beams."
                )
            rows = [_decode_utf8(row[:n]) for row in outputs["translations"]]
            scores = outputs["scores"][:, :n].tolist()
        else:
            if any(terms):
                outputs = self._predict(
                    "translate_with_terms", texts, **request_inputs(terms)
                )
            else:
                signature = "align" if align else "serving_default"
                outputs = self._predict(signature, texts)
            rows = [[text] for text in _decode_utf8(outputs["translation"])]
            scores = outputs["score"][:, None].tolist()
        words = [{}] * len(texts)
        if align:
            words = map(
                word_attributes,
                outputs["source_words"],
                outputs["target_words"],
                outputs["alignment"],
                outputs["token_log_probs"],
            )
        truncated = outputs["truncated"].tolist()
        return [*map(drop_impossible, rows, scores, words, truncated)]


def _decode_utf8(texts):
    return [text.decode("utf-8", "replace") for text in texts]
