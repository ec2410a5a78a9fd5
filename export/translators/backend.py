"""What a Translator runs: a model in this process, an export or a server."""

import abc

from export.common.errors import InputError
from export.translators.batches import BATCH_TOKENS, NUM_THREADS
from export.translators.languages import Languages


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
    batch_size = None
    beam_size = 1
    num_threads = NUM_THREADS
    languages = Languages()
    has_alignments = aligns_terms = True

    @abc.abstractmethod
    def tokenize(self, texts):
        """Returns a list of Sentence, with ids unless `search` reads texts."""

    @abc.abstractmethod
    def search(self, sentences, n, align):
        """Returns a list of possible Translations for each Sentence."""

    def select_languages(self, languages, source, target):
        """Returns Languages with other codes; see `Languages.select`."""
        return languages.select(source, target)

    def validate_terms(self, terms):
        """Raises InputError for Terms that no translation can contain."""
        raise InputError(
            f"{type(self).__name__} takes no terms: start the command with "
            "KERAS_BACKEND=tensorflow."
        )

    def find_terms(self, terms, sentences):
        """Returns the Terms of each Sentence, lists."""
        return [terms.find(sentence.text) for sentence in sentences]

    def encode_prefixes(self, prefixes):
        """Returns a Sentence for each, without the end id, as it is spelled."""
        raise InputError(
            "Only model directories take --prefixes, the beginnings of "
            "translations; omit them."
        )

    def tokenize_targets(self, translations):
        """Returns given translations as a list of Sentence."""
        raise self._unsupported_error("counts tokens of translations")

    def score(self, sources, targets):
        """Returns log-probabilities of targets, both lists of Sentence."""
        raise self._unsupported_error("scores translations")

    def sample(self, sentences, config):
        """Returns a list of sampled Translations for each Sentence."""
        raise self._unsupported_error("samples translations")

    def search_ids(self, sentences):
        """Returns the best translations, a list of Sentence without texts."""
        raise self._unsupported_error("returns ids")

    def _unsupported_error(self, verb):
        return InputError(
            f"Only a model directory on TensorFlow {verb}, not "
            f"{self.name or type(self).__name__}."
        )
