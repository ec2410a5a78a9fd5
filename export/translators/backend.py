"""What a Translator runs: a model in this process, an export or a server."""

import abc
import typing
from collections.abc import Sequence

from export.common.errors import InputError
from export.translators.batches import BATCH_TOKENS, NUM_THREADS
from export.translators.languages import Languages
from export.translators.translation import Sentence, Translation

if typing.TYPE_CHECKING:
    import keras_transformer as kt
    from export.terms.terms import Term, Terms


class Backend(abc.ABC):
    """Tokenizes and translates sentences for a Translator.

    Attributes:
        name: where the model is, for messages.
        batch_tokens: source tokens in a batch, padding included.
        batch_size: sentences in a batch instead, if not None.
        beam_size: maximum number of translations of a sentence; None if it
            is unknown before the first result.
        num_threads: number of batches that are translated in parallel.
        languages: Languages of the model.
        has_alignments: whether `search` can align words.
        aligns_terms: whether it can align translations with terms.
    """

    name = ""
    batch_tokens = BATCH_TOKENS
    batch_size: int | None = None
    beam_size: int | None = 1
    num_threads = NUM_THREADS
    languages = Languages()
    has_alignments = aligns_terms = True
    # Of model directories alone.
    model: typing.Any
    tokenizer: typing.Any

    @abc.abstractmethod
    def tokenize(self, texts: Sequence[str]) -> list[Sentence]:
        """Returns Sentences, with ids unless `search` reads texts."""

    @abc.abstractmethod
    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """Returns the possible Translations of each Sentence."""

    def select_languages(
        self, languages: Languages, source: str | None, target: str | None
    ) -> Languages:
        """Returns Languages with other codes; see `Languages.select`."""
        return languages.select(source, target)

    def validate_terms(self, terms: "Terms") -> None:
        """Raises InputError for Terms that no translation can contain."""
        raise InputError(
            f"{type(self).__name__} takes no terms: start the command with "
            "KERAS_BACKEND=tensorflow."
        )

    def find_terms(
        self, terms: "Terms", sentences: Sequence[Sentence]
    ) -> "list[list[Term]]":
        """Returns the Terms of each Sentence."""
        return [terms.find(sentence.text) for sentence in sentences]

    def encode_prefixes(self, prefixes: Sequence[str]) -> list[Sentence]:
        """Returns a Sentence for each, without the end id, as it is spelled."""
        raise InputError(
            "Only model directories take --prefixes, the beginnings of "
            "translations; omit them."
        )

    def tokenize_targets(self, translations: Sequence[str]) -> list[Sentence]:
        """Returns given translations as Sentences."""
        raise self._unsupported_error("counts tokens of translations")

    def score(
        self, sources: Sequence[Sentence], targets: Sequence[Sentence]
    ) -> list[float]:
        """Returns log-probabilities of targets."""
        raise self._unsupported_error("scores translations")

    def sample(
        self, sentences: Sequence[Sentence], config: "kt.SamplingConfig | None"
    ) -> list[list[Translation]]:
        """Returns sampled Translations of each Sentence."""
        raise self._unsupported_error("samples translations")

    def search_ids(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Returns the best translations, Sentences without texts."""
        raise self._unsupported_error("returns ids")

    def _unsupported_error(self, verb):
        return InputError(
            f"Only a model directory on TensorFlow {verb}, not "
            f"{self.name or type(self).__name__}."
        )
