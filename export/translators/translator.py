"""Translates, scores and samples lists of texts, whatever runs the model."""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence

from export.documents.document import translate_documents
from export.translators.backend import Backend
from export.translators.batches import (
    OnProgress,
    map_in_batches,
    validate_texts,
)
from export.translators.languages import Languages
from export.translators.suspicion import find_suspicion
from export.translators.translation import (
    BLANK,
    IMPOSSIBLE_SCORE,
    Sentence,
    SentencePair,
    Translation,
    impossible_error,
)

if typing.TYPE_CHECKING:
    import keras_transformer as kt
    from export.terms.terms import Terms
    from export.translators.languages import Tokenizers
    from keras_transformer.types import TransformerLike


class Translator:
    """Translates lists of texts in batches of similar lengths.

    `load_translator` returns one. The translation of a sentence does not depend
    on its batch, except where rounding decides between two. Empty text (or only
    white space) gives empty text with score 0 and is not searched.

    Args:
        backend: Backend, a model in this process, an export or a server.
        languages: Languages of the texts; None for the backend's.
    """

    def __init__(self, backend: Backend, languages: Languages | None = None):
        self.backend = backend
        self.languages = languages or backend.languages

    @classmethod
    def from_model(
        cls,
        model: "TransformerLike",
        tokenizer: "Tokenizers",
        languages: Languages | None = None,
        **settings: typing.Any,
    ) -> typing.Self:
        """Returns the translator of a Transformer or kt.Ensemble.

        `tokenizer` is that of its vocabulary, from `load_tokenizer`; `settings`
        are arguments of GraphBackend or, if
        `splits_in_python()`, of IdsBackend.
        """
        # Not at the top: exports do not need Keras, and JAX no TensorFlow.
        from export.tokenizers import splits_in_python

        if splits_in_python():
            from export.translators.ids_backend import IdsBackend as ModelClass
        else:
            from export.translators.graph_backend import (  # type: ignore[assignment]
                GraphBackend as ModelClass,
            )
        return cls(ModelClass(model, tokenizer, **settings), languages)

    @property
    def model(self) -> "TransformerLike":
        """The Transformer or kt.Ensemble of a model directory."""
        return self.backend.model

    @property
    def tokenizer(self) -> "Tokenizers":
        """The tokenizer of a model directory."""
        return self.backend.tokenizer

    @property
    def beam_size(self) -> int | None:
        """Maximum number of translations of a sentence; None if unknown."""
        return self.backend.beam_size

    def for_languages(
        self, source: str | None = None, target: str | None = None
    ) -> typing.Self:
        """Returns a copy for texts of these languages; None for no change.

        A text that begins with tags, such as >>fra<<, has the languages of its
        tags. Raises InputError for a language that the model lacks.
        """
        languages = self.backend.select_languages(
            self.languages, source, target
        )
        return type(self)(self.backend, languages)

    def translate(
        self,
        texts: Iterable[str],
        on_progress: OnProgress = None,
        prefixes: Iterable[str] | None = None,
        terms: "Terms | None" = None,
    ) -> list[Translation]:
        """Translates texts, one sentence each.

        `prefixes` has the beginning of each translation, "" for none; its last
        word may continue, and it is truncated to the maximum length of a
        translation. With `terms`, Terms, a translation contains the targets of
        the terms of its text. `on_progress` gets the number of newly translated
        sentences. Raises InputError if an export or server gets prefixes, or if
        the vocabulary cannot spell a term, and UnknownCharacterError if it
        lacks a character of a prefix.
        """
        rows = self.n_best(texts, 1, on_progress, prefixes, terms)
        return [translations[0] for translations in rows]

    def n_best(
        self,
        texts: Iterable[str],
        n: int,
        on_progress: OnProgress = None,
        prefixes: Iterable[str] | None = None,
        terms: "Terms | None" = None,
    ) -> list[list[Translation]]:
        """Finds the n best translations of each sentence; see `translate`.

        Returns the Translations of each, best first; fewer than n if
        fewer are possible. Two may have the same text in different tokens.
        Scores include the prefix's probability. Raises ValueError if n is above
        `beam_size`, or if texts and prefixes differ in number.
        """
        if n < 1 or (self.beam_size and n > self.beam_size):
            raise ValueError(
                f"Expected n from 1 to the beam size, {self.beam_size}, got "
                f"{n}."
            )
        sentences = self._sentences(texts, prefixes)
        return self.search(sentences, n, on_progress, terms)

    def align(
        self,
        texts: Iterable[str],
        on_progress: OnProgress = None,
        prefixes: Iterable[str] | None = None,
        terms: "Terms | None" = None,
    ) -> list[Translation]:
        """Translates with word alignments and confidence; see `translate`.

        Each token of a translation is aligned to the source token with the
        largest attention (`Transformer.alignment`).
        """
        sentences = self._sentences(texts, prefixes)
        rows = self.search(sentences, 1, on_progress, terms, align=True)
        return [translations[0] for translations in rows]

    def find_suspicions(
        self, texts: Iterable[str], translations: Iterable[str]
    ) -> list[str]:
        """Returns why each translation may be wrong, "" if nothing is known.

        See `find_suspicion`; a model with tags reads languages from those of a
        text.
        """
        reasons = []
        for text, translation in zip(texts, translations, strict=True):
            languages, untagged = self.languages.for_text(text)
            reasons.append(
                find_suspicion(untagged, translation, languages.target)
            )
        return reasons

    def translate_document(
        self,
        text: str,
        format: str = "text",
        on_progress: OnProgress = None,
        terms: "Terms | None" = None,
        keep_elements: Sequence[str] = (),
        on_change: Callable[[int, str], object] | None = None,
    ) -> str:
        """Translates a whole document.

        Everything but its sentences stays as it is. The `format` is "text",
        with paragraphs, lists and line ends, or "html" or "xml", whose inline
        tags are put around the aligned words. A sentence above the model's
        limit is split at clauses. For `terms` see `translate`; their patterns
        of placeholders count here. Elements that `keep_elements` names are not
        translated. `on_change` gets the line and the text of each placeholder
        or kept item that a translation has less or more often than its source.
        Raises InputError for XML that is not well-formed and for another
        format.
        """
        texts = validate_texts([text], "document")
        return translate_documents(
            self, texts, format, on_progress, terms, keep_elements, on_change
        )[0]

    def sample(
        self,
        texts: Iterable[str],
        seeds: Iterable[int],
        config: "kt.SamplingConfig | None" = None,
        on_progress: OnProgress = None,
    ) -> list[list[Translation]]:
        """Samples translations of each sentence.

        `seeds` has an int from 0 to 2**31 - 1 for each sentence, whose samples
        depend on no other sentence; `config` is a kt.SamplingConfig. Returns a
        list of lists of Translation in the order drawn, with log-probabilities
        as scores; blank text has one.
        """
        sentences = [
            sentence._replace(seed=seed)
            for sentence, seed in zip(self.sentences(texts), seeds, strict=True)
        ]
        return self._translate_batches(
            lambda batch: self.backend.sample(batch, config),
            sentences,
            on_progress,
        )

    def score(
        self, texts: Iterable[str], translations: Iterable[str]
    ) -> list[float]:
        """Returns the log-probabilities of given translations.

        They have no length penalty and include the end id. Sources are
        truncated as in `translate`, translations to their maximum length. With
        a blank source a blank translation scores 0, any other -1e9.
        """
        return self.score_pairs(self.pairs(texts, translations))

    def score_pairs(self, pairs: Sequence[SentencePair]) -> list[float]:
        """Scores pairs; see `score`."""
        scores = self._map_batches(
            lambda batch: self.backend.score(*zip(*batch)), pairs
        )
        return [
            (0.0 if pair.target.length == 1 else IMPOSSIBLE_SCORE)
            if score is None
            else score
            for pair, score in zip(pairs, scores)
        ]

    def translate_to_pairs(self, texts: Iterable[str]) -> list[SentencePair]:
        """Translates to SentencePairs with ids; blank texts to the end id."""
        sentences = self.sentences(texts)
        targets = self._map_batches(self.backend.search_ids, sentences)
        (blank,) = self.target_sentences([""])
        return [
            SentencePair(sentence, blank if target is None else target)
            for sentence, target in zip(sentences, targets)
        ]

    def normalize_prefixes(
        self, prefixes: Iterable[str], keep_long: bool = True
    ) -> list[str]:
        r"""Returns prefixes as the vocabulary spells them.

        For example, "\ufb01" becomes "fi", and spaces become single, with none
        at the ends. A prefix above the maximum length of a translation is
        unchanged, or truncated if not `keep_long`. Raises
        UnknownCharacterError if the vocabulary lacks a character.
        """
        prefixes = validate_texts(prefixes, "prefixes")
        sentences = self.backend.encode_prefixes(prefixes)
        return [
            prefix if sentence.truncated and keep_long else sentence.text
            for prefix, sentence in zip(prefixes, sentences)
        ]

    def sentences(self, texts: Iterable[str]) -> list[Sentence]:
        """Returns texts as Sentences, with their tags."""
        texts = validate_texts(texts)
        return self.backend.tokenize([*map(self.languages.tag, texts)])

    def target_sentences(self, translations: Iterable[str]) -> list[Sentence]:
        """Returns given translations as Sentences."""
        translations = validate_texts(translations, "translations")
        return self.backend.tokenize_targets(translations)

    def pairs(
        self, texts: Iterable[str], translations: Iterable[str]
    ) -> list[SentencePair]:
        """Returns texts and translations as SentencePairs."""
        sources = self.sentences(texts)
        targets = self.target_sentences(translations)
        return [
            SentencePair(*pair) for pair in zip(sources, targets, strict=True)
        ]

    def _sentences(self, texts, prefixes):
        sentences = self.sentences(texts)
        if prefixes is None:
            return sentences
        encoded = self.backend.encode_prefixes(
            validate_texts(prefixes, "prefixes")
        )
        return [
            sentence._replace(prefix=prefix.ids)
            for sentence, prefix in zip(sentences, encoded, strict=True)
        ]

    def search(
        self,
        sentences: Sequence[Sentence],
        n: int,
        on_progress: OnProgress = None,
        terms: "Terms | None" = None,
        align: bool = False,
    ) -> list[list[Translation]]:
        """Finds the n best translations of Sentences; see `n_best`."""
        if terms is not None:
            sentences = self._add_terms(sentences, terms)

        def search_batch(batch):
            rows = self.backend.search(batch, n, align)
            # Items that cannot be kept, as they are too long, are left to the
            # model.
            failed = [
                index
                for index, sentence in enumerate(batch)
                if not rows[index] and any(t.is_kept for t in sentence.terms)
            ]
            if failed:
                others = [
                    batch[index]._replace(
                        terms=[t for t in batch[index].terms if not t.is_kept]
                    )
                    for index in failed
                ]
                found = self.backend.search(others, n, align)
                for index, row in zip(failed, found):
                    rows[index] = row
            return rows

        return self._translate_batches(search_batch, sentences, on_progress)

    def _add_terms(self, sentences, terms):
        self.backend.validate_terms(terms)
        # A tag has no terms: "it" is a code and a word.
        untagged = [
            sentence._replace(text=self.languages.split(sentence.text)[1])
            for sentence in sentences
        ]
        return [
            sentence._replace(terms=found)
            for sentence, found in zip(
                sentences, self.backend.find_terms(terms, untagged)
            )
        ]

    def _translate_batches(self, function, sentences, on_progress):
        """Maps lists of sentences; returns a list of Translations for each."""
        rows = [None] * len(sentences)
        # Those with terms in batches of their own: the search of the others is
        # faster.
        for has_terms in False, True:
            indices = [
                index
                for index, sentence in enumerate(sentences)
                if bool(sentence.terms) == has_terms
            ]
            batch_rows = self._map_batches(
                function, [sentences[index] for index in indices], on_progress
            )
            for index, row in zip(indices, batch_rows):
                rows[index] = [BLANK] if row is None else row
        for row, sentence in zip(rows, sentences):
            if not row:
                raise impossible_error(sentence)
        return [
            [dataclasses.replace(each, source_truncated=True) for each in row]
            if sentence.truncated
            else row
            for row, sentence in zip(rows, sentences)
        ]

    def _map_batches(self, function, items, on_progress=None):
        """Maps lists of items, which have a `length`; returns all results."""
        backend = self.backend
        return map_in_batches(
            [item.length for item in items],
            backend.batch_tokens,
            lambda batch: function([items[index] for index in batch]),
            on_progress,
            backend.num_threads,
            backend.batch_size,
        )
