"""Runs the signatures of an export or server for a Translator."""

import typing
from collections.abc import Callable, Collection, Sequence

import numpy as np

from export.common.errors import InputError
from export.terms.terms import Terms, request_inputs
from export.translators.backend import Backend
from export.translators.translation import (
    Sentence,
    Translation,
    read_translations,
)

# Arrays by name, with a row per text.
Outputs: typing.TypeAlias = dict[str, np.ndarray]


class SignatureBackend(Backend):
    """Passes texts to signatures, which tokenize them.

    Args:
        run: function of a signature's name and a dict of its inputs, lists of
            str or of lists of str, that returns a dict of arrays with a row per
            text; text is bytes.
        signatures: names of the signatures; None if unknown. Tokens are
            counted by `lengths`, or else characters sort texts equally well.
        name: where the signatures are, for messages.
        **attributes: those of Backend.
    """

    aligns_terms = False

    def __init__(
        self,
        run: Callable[[str, dict[str, typing.Any]], Outputs],
        signatures: Collection[str] | None = None,
        name: str = "",
        **attributes: typing.Any,
    ):
        self._run, self._signatures, self.name = run, signatures, name
        self.has_alignments = signatures is None or "align" in signatures
        vars(self).update(attributes)

    def run(
        self, signature: str, texts: Sequence[str], **inputs: typing.Any
    ) -> Outputs:
        """Returns a signature's outputs; `inputs` are others than `text`."""
        if self._signatures is not None and signature not in self._signatures:
            raise InputError(
                f"{self.name} has no signature {signature}; export its model "
                "again with export.saved_model, or for alignments with "
                "export.onnx --alignments."
            )
        return self._run(signature, {"text": texts, **inputs})

    def validate_terms(self, terms: Terms) -> None:
        """See the base class."""
        if "rare" in terms.keep:
            raise InputError(
                f"{self.name} does not tell which characters are rare: give "
                "others to --keep, or use the model directory."
            )

    def tokenize(self, texts: Sequence[str]) -> list[Sentence]:
        """See the base class."""
        if self._signatures is None:
            return [
                Sentence(text, (), len(text) + 1 if text.strip() else 1, False)
                for text in texts
            ]
        return self._count_tokens(texts, "")

    def tokenize_targets(self, translations: Sequence[str]) -> list[Sentence]:
        """See the base class."""
        return self._count_tokens(translations, "translation_")

    def _count_tokens(self, texts, prefix):
        """Returns Sentences; `prefix` is that of the outputs' names."""
        if not texts:
            return []
        outputs = self.run("lengths", texts)
        names = [f"{prefix}{each}" for each in ("length", "limit", "truncated")]
        if names[0] not in outputs:
            raise InputError(
                f"{self.name} does not count the tokens of translations; "
                "export its model again with export.saved_model."
            )
        lengths, limits, truncated = (outputs[name] for name in names)
        lengths = np.minimum(lengths, limits).tolist()
        return [
            Sentence(text, (), *each)
            for text, *each in zip(texts, lengths, truncated.tolist())
        ]

    def score(
        self, sources: Sequence[Sentence], targets: Sequence[Sentence]
    ) -> list[float]:
        """See the base class."""
        outputs = self.run(
            "score",
            [source.text for source in sources],
            translation=[target.text for target in targets],
        )
        return outputs["score"].tolist()

    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """See the base class."""
        texts = [sentence.text for sentence in sentences]
        terms = [sentence.terms for sentence in sentences]
        if any(terms):
            if align or n > 1:
                raise InputError(
                    f"{self.name} is an export, which gives only the best "
                    "translation with terms, without alignments: omit "
                    "--n_best, --alignments and --confidence, or --terms and "
                    "--keep, or use the model directory."
                )
            outputs = self.run(
                "translate_with_terms", texts, **request_inputs(terms)
            )
        elif n > 1:
            outputs = self.run("n_best", texts)
            beams = outputs["scores"].shape[1]
            if n > beams:
                raise InputError(
                    f"Expected at most {beams} translations, the beam size of "
                    f"{self.name}, got {n}; export the model with more beams."
                )
        else:
            outputs = self.run("align" if align else "serving_default", texts)
        return read_translations(outputs, n)
