"""What every translator of text does the same way."""

import abc
import dataclasses
import typing

import numpy as np

from export.errors import InputError
from export.translators.batches import BATCH_TOKENS, in_batches
from export.translators.word_alignment import word_alignment


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: of the translation.
        score: log-probability / length penalty.
        alignment: pairs (source word, target word), counted from 0 over the
            words between white space, in ascending order; () where it was
            not asked for.
        source_is_cut: whether the source was longer than the model takes, so
            that only its beginning was translated.
    """

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()
    source_is_cut: bool = False


# Of text in which there is nothing to translate.
BLANK = Translation("", 0.0)

# The score of what cannot be, and what every possible score lies above.
IMPOSSIBLE = -1e9
LOWEST_SCORE = -1e8


class Difference(typing.NamedTuple):
    """Of scores, without the sign.

    Attributes:
        mean: over the sentences; 0 where there are none.
        largest: of them.
    """

    mean: float
    largest: float


class Agreement(typing.NamedTuple):
    """Two lists of translations of the same sentences, compared.

    Attributes:
        sentences: how many there are.
        identical: how many translations read the same.
        where_identical: Difference of these.
        everywhere: Difference of all.
    """

    sentences: int
    identical: int
    where_identical: Difference
    everywhere: Difference


def agreement(ours, theirs):
    """Compares translations one by one.

    Args:
        ours: list of Translation.
        theirs: list of Translation of the same sentences.

    Returns:
        Agreement.
    """
    pairs = list(zip(ours, theirs, strict=True))
    same = np.array([one.text == other.text for one, other in pairs], bool)
    apart = np.array([abs(one.score - other.score) for one, other in pairs])
    return Agreement(
        len(pairs),
        int(same.sum()),
        _difference(apart[same]),
        _difference(apart),
    )


def _difference(values):
    if not values.size:
        return Difference(0.0, 0.0)
    return Difference(float(values.mean()), float(values.max()))


class Sentence(typing.NamedTuple):
    """One source, ready to be asked for.

    Attributes:
        text: as it was given.
        ids: int32 array, or () where the model's answerer makes them.
        length: ids that are translated, the end id counted.
        is_cut: whether there were more.
        prefix: int32 array of the ids that its translations begin with.
    """

    text: str
    ids: typing.Any
    length: int
    is_cut: bool
    prefix: typing.Any = ()


class TextTranslator(abc.ABC):
    """Text in, translations out, similar lengths together.

    A sentence's translation does not depend on what it is translated with.
    Empty text (or only spaces) gives empty text with score 0.

    Attributes:
        batch_tokens: source positions in a batch, padding counted.
        beam_size: the most translations of a sentence.
    """

    batch_tokens = BATCH_TOKENS
    beam_size = 1

    def translate(self, texts, on_progress=None):
        """Translates sentences.

        Args:
            texts: list of str, a sentence each.
            on_progress: function of the number of sentences just done.

        Returns:
            A list of Translation in the same order.
        """
        found = self.n_best(texts, 1, on_progress)
        return [translations[0] for translations in found]

    def n_best(self, texts, n, on_progress=None):
        """Finds the n best translations of each sentence.

        Args:
            texts: as for `translate`.
            n: how many, at most `beam_size`.
            on_progress: as for `translate`.

        Returns:
            A list of lists of Translation, best first; fewer than n where
            fewer are possible. Two may read the same in different pieces.

        Raises:
            ValueError: n is not between 1 and `beam_size`.
        """
        sentences = self._sentences(list(texts))
        return self._n_best(sentences, n, self._search_texts, on_progress)

    def align(self, texts, on_progress=None):
        """Translates sentences and says which word comes from which.

        Args:
            texts: as for `translate`.
            on_progress: as for `translate`.

        Returns:
            A list of Translation with their alignments: each piece of a
            translation counts as from the piece of the source that it
            attends to most, in the mean of the heads (`kt.alignment_of`).
        """

        def ask(sentences):
            return [
                _possible([text], [score], word_alignment(sentence.text, *rest))
                for sentence, (text, score, *rest) in zip(
                    sentences, self._align_texts(sentences)
                )
            ]

        sentences = self._sentences(list(texts))
        found = self._in_batches(sentences, ask, on_progress)
        return [translations[0] for translations in found]

    def lengths(self, texts):
        """Counts what `score` counts: ids, the end id among them.

        Args:
            texts: list of str.

        Returns:
            A list of int, None where a text is longer than a source may be.
        """
        return [
            None if sentence.is_cut else sentence.length
            for sentence in self._sentences(list(texts))
        ]

    def _n_best(self, sentences, n, search_texts, on_progress):
        if not 1 <= n <= self.beam_size:
            raise ValueError(
                f"n must be from 1 to the beam size, {self.beam_size}, not {n}."
            )

        def ask(sentences):
            texts, scores = search_texts(sentences, n)
            return [_possible(*pair) for pair in zip(texts, scores)]

        return self._in_batches(sentences, ask, on_progress)

    def _in_batches(self, sentences, ask, on_progress):
        answers = in_batches(
            [sentence.length for sentence in sentences],
            self.batch_tokens,
            lambda batch: ask([sentences[number] for number in batch]),
            on_progress,
        )
        return complete(sentences, answers)

    @abc.abstractmethod
    def _sentences(self, texts):
        """Returns a list of Sentence."""

    @abc.abstractmethod
    def _search_texts(self, sentences, n):
        """Returns texts and scores: lists of n for each sentence."""

    @abc.abstractmethod
    def _align_texts(self, sentences):
        """Yields text, score, source's and target's pieces, attention."""


def complete(sentences, answers):
    """Returns the answers of all sentences, blank and cut ones as they are.

    Args:
        sentences: list of Sentence.
        answers: list of lists of Translation; None for blank text.

    Raises:
        InputError: a sentence has no translation: not even the end is
            possible where the weights are no numbers.
    """
    blank = [BLANK]
    translations = [blank if each is None else each for each in answers]
    if not all(translations):
        raise InputError(
            "The model finds no translation possible, so that its weights "
            "must be damaged: infinite, or no numbers. Use those of an earlier "
            "checkpoint, or train anew with a lower learning rate."
        )
    return [
        _marked(found, sentence.is_cut)
        for found, sentence in zip(translations, sentences)
    ]


def _possible(texts, scores, alignment=()):
    return [
        Translation(text, score, alignment)
        for text, score in zip(texts, scores)
        if score > LOWEST_SCORE
    ]


def _marked(translations, is_cut):
    if not is_cut:
        return translations
    return [
        dataclasses.replace(translation, source_is_cut=True)
        for translation in translations
    ]
