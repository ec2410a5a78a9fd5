"""The interface of translators of text, their inputs and results."""

import abc
import copy
import dataclasses
import typing

import numpy as np

from export.common.errors import InputError
from export.documents.document import translate_documents
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    map_in_batches,
    validate_texts,
)
from export.translators.languages import Languages


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        score: log-probability / length penalty.
        alignment: pairs (source word, target word) in ascending order, counted
            from 0; words are separated by white space. () if not requested.
        source_truncated: whether the source exceeded the model's limit.
        word_log_probs: log-probability of each word, the sum of its tokens';
            () if no alignment was requested.
    """

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()
    source_truncated: bool = False
    word_log_probs: tuple[float, ...] = ()


# The translation of blank text.
BLANK = Translation("", 0.0)
# Score of impossible results, and a bound below every possible score, far from
# both, so that rounding does not matter.
IMPOSSIBLE_SCORE = -1e9
MIN_POSSIBLE_SCORE = -1e8


class Sentence(typing.NamedTuple):
    """One source, ready to be translated.

    Attributes:
        ids: int32 array; () if a signature tokenizes the text.
        length: number of ids, the end id included; blank text has 1.
        truncated: whether ids were dropped; False if only a server knows.
        prefix: int32 array of ids that its translations begin with.
        seed: for sampling.
        terms: list of Term whose targets its translations contain.
    """

    text: str
    ids: typing.Any
    length: int
    truncated: bool
    prefix: typing.Any = ()
    seed: int = 0
    terms: typing.Any = ()


class IdPair(typing.NamedTuple):
    """Source and target ids, int32 [S] and [T], end ids included."""

    source: np.ndarray
    target: np.ndarray
    source_truncated: bool
    target_truncated: bool = False

    @property
    def length(self):
        """Number of ids of the longer side; 1 if the source is blank."""
        if len(self.source) == 1:
            return 1
        return max(len(self.source), len(self.target))


class UnknownCharacterError(ValueError):
    """`prefixes[index]` has a `character` that the vocabulary lacks."""

    def __init__(self, index, character):
        super().__init__(
            f"prefixes[{index}] has {character!r} (U+{ord(character):04X}), "
            "which the vocabulary lacks; omit it."
        )
        self.index = index
        self.character = character


class TextTranslator(abc.ABC):
    """Translates lists of texts in batches of similar lengths.

    The translation of a sentence does not depend on its batch, except where
    rounding decides between two. Empty text (or only white space) gives empty
    text with score 0.

    Attributes:
        batch_tokens: source tokens in a batch, padding included.
        batch_size: sentences in a batch instead, if not None.
        beam_size: maximum number of translations of a sentence; None if it
            is unknown before the first result.
        num_threads: number of batches that are translated in parallel.
        languages: Languages of the texts and of their translations.
        has_alignments: whether `align` is there.
        aligns_terms: whether it takes terms.
    """

    has_alignments = aligns_terms = True
    languages = Languages()
    batch_tokens = BATCH_TOKENS
    batch_size = None
    beam_size = 1
    num_threads = NUM_THREADS

    def for_languages(self, source=None, target=None):
        """Returns a copy for texts of these languages; None for no change.

        A text that begins with tags, such as >>fra<<, has the languages of its
        tags. Raises InputError for a language that the model lacks.
        """
        translator = copy.copy(self)
        translator.languages = self.languages.select(source, target)
        return translator

    def translate(self, texts, on_progress=None, prefixes=None, terms=None):
        """Translates a list of str, one sentence each, to Translations.

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

    def n_best(self, texts, n, on_progress=None, prefixes=None, terms=None):
        """Finds the n best translations of each sentence; see `translate`.

        Returns a list of lists of Translation, best first; fewer than n if
        fewer are possible. Two may have the same text in different tokens.
        Scores include the prefix's probability. Raises ValueError if n is above
        `beam_size`, or if texts and prefixes differ in number.
        """
        if n < 1 or (self.beam_size and n > self.beam_size):
            raise ValueError(
                f"Expected n from 1 to the beam size, {self.beam_size}, got "
                f"{n}."
            )
        return self._search_batches(texts, n, on_progress, prefixes, terms)

    def align(self, texts, on_progress=None, prefixes=None, terms=None):
        """Translates with word alignments and confidence; see `translate`.

        Each token of a translation is aligned to the source token with the
        largest attention (`Transformer.alignment`).
        """
        rows = self._search_batches(
            texts, 1, on_progress, prefixes, terms, align=True
        )
        return [translations[0] for translations in rows]

    def translate_document(
        self,
        text,
        format="text",
        on_progress=None,
        terms=None,
        keep_elements=(),
        on_change=None,
    ):
        """Translates a whole document, a str; returns a str.

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

    def lengths(self, texts):
        """Returns the number of ids of each text; None above the limit."""
        return [
            None if sentence.truncated else sentence.length
            for sentence in self.sentences(texts)
        ]

    def sentences(self, texts):
        """Returns a list of Sentence for a list of str, with their tags."""
        texts = validate_texts(texts)
        return self._tokenize([*map(self.languages.tag, texts)])

    def _search_batches(
        self, texts, n, on_progress, prefixes, terms, align=False
    ):
        sentences = self.sentences(texts)
        if prefixes is not None:
            prefix_ids = self._prefix_ids(validate_texts(prefixes, "prefixes"))
            sentences = [
                sentence._replace(prefix=ids)
                for sentence, ids in zip(sentences, prefix_ids, strict=True)
            ]
        if terms is not None:
            self._validate_terms(terms)
            # A tag has no terms: "it" is a code and a word.
            untagged = [
                sentence._replace(text=self.languages.split(sentence.text)[1])
                for sentence in sentences
            ]
            sentences = [
                sentence._replace(terms=found)
                for sentence, found in zip(
                    sentences, self._find_terms(terms, untagged)
                )
            ]

        def search_batch(batch):
            rows = self._search(batch, n, align)
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
                for index, row in zip(failed, self._search(others, n, align)):
                    rows[index] = row
            return rows

        return self._translate_batches(search_batch, sentences, on_progress)

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
                rows[index] = row
        rows = [[BLANK] if row is None else row for row in rows]
        for row, sentence in zip(rows, sentences):
            if not row and sentence.terms:
                raise InputError(
                    f"No translation of {sentence.text!r} can have its terms, "
                    f"{', '.join(term.target for term in sentence.terms)}: the "
                    "vocabulary cannot spell them, or they are too long; "
                    "correct or omit them."
                )
        if not all(rows):
            raise damaged_weights_error("translation")
        return [
            [dataclasses.replace(each, source_truncated=True) for each in row]
            if sentence.truncated
            else row
            for row, sentence in zip(rows, sentences)
        ]

    def _map_batches(self, function, items, on_progress=None):
        """Maps lists of items, which have a `length`; returns all results."""
        return map_in_batches(
            [item.length for item in items],
            self.batch_tokens,
            lambda batch: function([items[index] for index in batch]),
            on_progress,
            self.num_threads,
            self.batch_size,
        )

    @abc.abstractmethod
    def _tokenize(self, texts):
        """Returns a list of Sentence."""

    @abc.abstractmethod
    def _search(self, sentences, n, align):
        """Returns a list of possible Translations for each sentence."""

    def _validate_terms(self, terms):
        """Raises InputError for Terms; here, leaves them to the search."""
        del terms

    def _find_terms(self, terms, sentences):
        """Returns the Terms of each Sentence, lists."""
        return [terms.find(sentence.text) for sentence in sentences]

    def _prefix_ids(self, prefixes):
        """Returns an int32 array for each prefix; here, refuses prefixes."""
        raise InputError(
            "Only model directories translate with prefixes; omit the "
            f"{len(prefixes)} prefixes."
        )


def damaged_weights_error(output):
    """Returns the InputError for a search that finds no output of any text."""
    return InputError(
        f"No {output} is possible: the model's weights must be damaged, "
        "infinite or NaN. Use those of an earlier checkpoint, or train again "
        "with a lower learning rate."
    )


def drop_impossible(texts, scores, words=(), truncated=False):
    """Returns the possible Translations of one sentence.

    `words` has the attributes of Translation about its words.
    """
    return [
        Translation(text, score, **dict(words), source_truncated=truncated)
        for text, score in zip(texts, scores)
        if score > MIN_POSSIBLE_SCORE
    ]


def word_attributes(source_words, target_words, attention, token_log_probs):
    """Returns alignment and word_log_probs of a Translation, a dict.

    See `word_alignment`; `token_log_probs` are float [T].
    """
    # An empty list from a server has lost its last axis.
    source_words = source_words.reshape(-1, 2)
    target_words = target_words.reshape(-1, 2)
    return {
        "alignment": word_alignment(source_words, target_words, attention),
        "word_log_probs": word_log_probs(target_words, token_log_probs),
    }


def word_log_probs(target_words, token_log_probs):
    """Returns the log-probability of each word, a tuple; see above."""
    sums = [0.0] * (target_words.max(initial=-1) + 1)
    for (first, last), log_prob in zip(
        target_words.tolist(), token_log_probs.tolist()
    ):
        for word in range(first, last + 1) if first >= 0 else ():
            sums[word] += log_prob
    return tuple(sums)


def word_alignment(source_words, target_words, attention):
    """Aligns the words of each target token to those it attends to most.

    `source_words`, int32 [S, 2], and `target_words`, int32 [T, 2], are from
    `text_ops`: first and last word of each token, -1 for tokens without a
    word, such as the end id and padding, which are ignored. `attention` is
    float [T, S]. Returns a tuple of pairs (source word, target word), in
    ascending order.
    """
    source = np.flatnonzero(source_words[:, 0] >= 0)
    target = np.flatnonzero(target_words[:, 0] >= 0)
    if not len(source) or not len(target):
        return ()
    nearest = source[attention[np.ix_(target, source)].argmax(axis=1)]
    links = set()
    for s, t in zip(nearest, target):
        first_target, last_target = target_words[t].tolist()
        first_source, last_source = source_words[s].tolist()
        for target_word in range(first_target, last_target + 1):
            for source_word in range(first_source, last_source + 1):
                links.add((source_word, target_word))
    return tuple(sorted(links))
