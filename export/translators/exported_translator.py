"""Translates text with an exported version, as a server would."""

from export.common.errors import InputError
from export.server_runtime.session import SERVER_ERRORS, ServerSession
from export.translators.batches import BATCH_TOKENS, translate_in_batches
from export.translators.signature_translator import SignatureTranslator
from export.translators.text_ids import list_of_texts
from export.translators.text_translator import Sentence


class ExportedTranslator(SignatureTranslator):
    """The same calls as Translator, answered by a SavedModel.

    Args:
        path: folder of one exported version.
        batch_tokens: source positions in a batch, padding counted.

    Raises:
        InputError: there is no such version, or it cannot be loaded.
    """

    def __init__(self, path, batch_tokens=BATCH_TOKENS):
        self.batch_tokens = batch_tokens
        self.name = str(path)
        try:
            self._session = ServerSession(path)
        except SERVER_ERRORS as error:
            raise InputError(
                f"{path} is not an exported version that TensorFlow Serving "
                f"could load: {error}"
            ) from error
        self._signatures = self._session.signatures
        if "n_best" in self._signatures:
            scores = self._signatures["n_best"].outputs["scores"]
            self.beam_size = scores.tensor_shape.dim[1].size

    def score(self, texts, translations):
        """Scores given translations; see `Translator.score`."""
        texts = list_of_texts(texts)
        translations = list_of_texts(translations, "translations")
        pairs = list(zip(texts, translations, strict=True))
        # Blank text is asked about as well.
        lengths = [
            max(source.length, target.length, 2)
            for source, target in zip(
                self._sentences(texts),
                self._sentences(translations),
            )
        ]

        def ask(batch):
            texts, translations = zip(*(pairs[number] for number in batch))
            answer = self._run(
                "score", text=_bytes(texts), translation=_bytes(translations)
            )
            return answer["score"].tolist()

        return translate_in_batches(lengths, self.batch_tokens, ask)

    def lengths(self, texts):
        """See the base class.

        Raises:
            InputError: an export of an older version does not tell.
        """
        self._require("lengths")
        return super().lengths(texts)

    def _sentences(self, texts):
        if "lengths" not in self._signatures:
            # An export of an older version: characters order them as well.
            return [Sentence(text, (), len(text) + 1, False) for text in texts]
        if not texts:
            return []
        answer = self._run("lengths", text=_bytes(texts))
        return [
            Sentence(text, (), min(length, limit), length > limit)
            for text, length, limit in zip(
                texts, answer["length"].tolist(), answer["limit"].tolist()
            )
        ]

    def _ask(self, signature, texts):
        return self._run(signature, text=_bytes(texts))

    def _run(self, signature, **inputs):
        self._require(signature)
        return self._session.run(signature, inputs)

    def _require(self, signature):
        if signature not in self._signatures:
            raise InputError(
                f"{self.name} has no signature {signature}; export its model "
                "again with export.saved_model."
            )


def _bytes(texts):
    return [text.encode("utf-8") for text in texts]
