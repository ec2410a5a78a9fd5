"""What every translator of text does the same way."""

import abc
import dataclasses
import typing

import numpy as np

from export.common.errors import InputError
from export.translators.batches import (
    BATCH_TOKENS,
    NUM_THREADS,
    answer_batches,
    by_tokens,
)
from export.translators.text_ids import list_of_texts


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: of the translation.
        score: log-probability / length penalty.
        alignment: pairs (source word, target word), counted from 0 over the
            words between white space, in ascending order; () where it was
            not asked for.
        source_truncated: whether the source was longer than the model takes.
    """

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()
    source_truncated: bool = False


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
        beam_size: the most translations of a sentence; None where only the
            answers tell.
    """

    batch_tokens = BATCH_TOKENS
    beam_size = 1

    def translate(self, texts, on_progress=None, prefixes=None):
        """Translates sentences.

        Args:
            texts: list of str, a sentence each.
            on_progress: function of the number of sentences just done.
            prefixes: list of str, as many: what its translations begin with,
                "" for nothing. The last word may continue. A translation
                that may not be so long ends within its prefix. None for
                translations that begin with anything.

        Returns:
            A list of Translation in the same order.

        Raises:
            InputError: prefixes are given to a translator that takes none.
            UnknownCharacter: a prefix has one.
        """
        found = self.n_best(texts, 1, on_progress, prefixes)
        return [translations[0] for translations in found]

    def n_best(self, texts, n, on_progress=None, prefixes=None):
        """Finds the n best translations of each sentence.

        Args:
            texts: as for `translate`.
            n: how many, at most `beam_size`.
            on_progress: as for `translate`.
            prefixes: as for `translate`; their probabilities count in the
                scores.

        Returns:
            A list of lists of Translation, best first; fewer than n where
            fewer are possible. Two may read the same in different pieces.

        Raises:
            ValueError: n is not between 1 and `beam_size`, or there are more
                of texts or of prefixes.
            InputError: as for `translate`.
            UnknownCharacter: as for `translate`.
        """
        if n < 1 or (self.beam_size and n > self.beam_size):
            raise ValueError(
                f"n must be from 1 to the beam size, {self.beam_size}, not {n}."
            )
        return self._answers(texts, n, False, on_progress, prefixes)

    def align(self, texts, on_progress=None, prefixes=None):
        """Translates sentences and says which word comes from which.

        Args:
            texts: as for `translate`.
            on_progress: as for `translate`.
            prefixes: as for `translate`.

        Returns:
            A list of Translation with their alignments: each piece of a
            translation counts as from the piece of the source that it
            attends to most, in the mean of the heads (`Transformer.alignment`).

        Raises:
            InputError: as for `translate`.
            UnknownCharacter: as for `translate`.
        """
        found = self._answers(texts, 1, True, on_progress, prefixes)
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
            for sentence in self.sentences(texts)
        ]

    def _answers(self, texts, n, align, on_progress, prefixes):
        sentences = self.sentences(texts)
        if prefixes is not None:
            sentences = [
                sentence._replace(prefix=ids)
                for sentence, ids in zip(
                    sentences,
                    self._prefix_ids(list_of_texts(prefixes, "prefixes")),
                    strict=True,
                )
            ]
        answers = answer_batches(
            self._batches([sentence.length for sentence in sentences]),
            len(sentences),
            lambda batch: self._search(
                [sentences[number] for number in batch], n, align
            ),
            on_progress,
            self._num_threads(),
        )
        return complete(sentences, answers)

    def sentences(self, texts):
        """Returns a list of Sentence for a list of str.

        Raises:
            InputError: of `list_of_texts`.
        """
        return self._sentences(list_of_texts(texts))

    def _batches(self, lengths):
        """Returns lists of sentences' numbers, one a batch."""
        return by_tokens(lengths, self.batch_tokens)

    def _num_threads(self):
        """Returns how many batches are asked for at a time."""
        return NUM_THREADS

    @abc.abstractmethod
    def _sentences(self, texts):
        """Returns a list of Sentence."""

    @abc.abstractmethod
    def _search(self, sentences, n, align):
        """Returns a list of Translation for each sentence, of `possible`."""

    def _prefix_ids(self, prefixes):
        """Returns an array of ids for each prefix."""
        raise InputError(
            "Translations that begin with what is given are found by a model "
            f"directory alone; leave out the {len(prefixes)} prefixes."
        )


def possible(texts, scores, alignment=(), is_cut=False):
    """Returns the Translations whose score says that they are possible.

    Args:
        texts: list of str, of one sentence.
        scores: list of float, as many.
        alignment: of them.
        is_cut: whether their source was truncated.
    """
    return [
        Translation(text, score, alignment, is_cut)
        for text, score in zip(texts, scores)
        if score > LOWEST_SCORE
    ]


def complete(sentences, answers):
    """Returns the answers of all sentences, blank and cut ones as they are.

    Args:
        sentences: list of Sentence.
        answers: list of lists of Translation; None for blank text.

    Raises:
        InputError: a sentence has no translation: not even the end is
            possible where the weights are no numbers.
    """
    translations = [[BLANK] if each is None else each for each in answers]
    if not all(translations):
        raise InputError(
            "The model finds no translation possible, so that its weights "
            "must be damaged: infinite, or no numbers. Use those of an earlier "
            "checkpoint, or train anew with a lower learning rate."
        )
    return [
        [dataclasses.replace(each, source_truncated=True) for each in found]
        if sentence.is_cut
        else found
        for found, sentence in zip(translations, sentences)
    ]
