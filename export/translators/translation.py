"""Sentences to translate, and their translations."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from export.common.errors import InputError
from export.translators.batches import character_limit


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
        suspect: why it may be wrong, see `find_suspicion`; "" also if that was
            not requested.
    """

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()
    source_truncated: bool = False
    word_log_probs: tuple[float, ...] = ()
    suspect: str = ""


# The translation of blank text.
BLANK = Translation("", 0.0)
# Score of impossible results, and a bound below every possible score, far from
# both, so that rounding does not matter.
IMPOSSIBLE_SCORE = -1e9
MIN_POSSIBLE_SCORE = -1e8


class Sentence(typing.NamedTuple):
    """A source, ready to be translated, or a given translation or prefix.

    Attributes:
        ids: int32 array, truncated; () if a signature tokenizes the text.
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


def encode_texts(
    tokenizer: typing.Any, texts: Sequence[str], limit: int
) -> list[Sentence]:
    """Encodes texts to Sentences of at most `limit` ids."""
    max_characters = character_limit(limit)
    # As by `clean_text` of the Tokenizer.
    cleaned = [text.replace("\0", "") for text in texts]
    sentences = []
    rows = tokenizer.encode([text[:max_characters] for text in cleaned])
    for text, clean_text, ids in zip(texts, cleaned, rows):
        truncated = len(clean_text) > max_characters
        if len(ids) > limit:
            ids = np.append(ids[: limit - 1], ids[-1]).astype(np.int32)
            truncated = True
        sentences.append(Sentence(text, ids, len(ids), truncated))
    return sentences


class SentencePair(typing.NamedTuple):
    """A source and its translation, each a Sentence."""

    source: Sentence
    target: Sentence

    @property
    def length(self) -> int:
        """Number of ids of the longer side; 1 if the source is blank."""
        if self.source.length == 1:
            return 1
        return max(self.source.length, self.target.length)

    @property
    def truncated(self) -> bool:
        """Whether a side is above the model's limit."""
        return self.source.truncated or self.target.truncated


class UnknownCharacterError(ValueError):
    """`prefixes[index]` has a `character` that the vocabulary lacks."""

    def __init__(self, index: int, character: str):
        super().__init__(
            f"prefixes[{index}] has {character!r} (U+{ord(character):04X}), "
            "which the vocabulary lacks; omit it."
        )
        self.index = index
        self.character = character


def impossible_error(sentence: Sentence) -> InputError:
    """Returns the InputError for a Sentence without a translation."""
    if not sentence.terms:
        return damaged_weights_error("translation")
    return InputError(
        f"No translation of {sentence.text!r} can have its terms, "
        f"{', '.join(term.target for term in sentence.terms)}: the vocabulary "
        "cannot spell them, or they are too long; correct or omit them."
    )


def damaged_weights_error(output: str) -> InputError:
    """Returns the InputError for a search that finds no output of any text."""
    return InputError(
        f"No {output} is possible: the model's weights must be damaged, "
        "infinite or NaN. Use those of an earlier checkpoint, or train again "
        "with a lower learning rate."
    )


def read_translations(
    outputs: Mapping[str, np.ndarray], n: int = 1
) -> list[list[Translation]]:
    """Returns the possible Translations of each text.

    `outputs` is a dict of arrays, as `serving_default`, `n_best`, `align` and
    the other signatures that translate return it; at most `n` are read. Texts
    are bytes in UTF-8.
    """
    if "translations" in outputs:
        texts, scores = outputs["translations"], outputs["scores"]
    else:
        texts, scores = (
            outputs[name][:, None] for name in ("translation", "score")
        )
    count = len(texts)
    words: Iterable[Mapping[str, typing.Any]] = [{}] * count
    if "alignment" in outputs:
        names = "source_words", "target_words", "alignment", "token_log_probs"
        words = map(word_attributes, *(outputs[name] for name in names))
    truncated = outputs.get("truncated", np.zeros(count, bool)).tolist()
    rows = [
        [text.decode("utf-8", "replace") for text in row]
        for row in texts[:, :n]
    ]
    return [
        *map(drop_impossible, rows, scores[:, :n].tolist(), words, truncated)
    ]


def drop_impossible(
    texts: Sequence[str],
    scores: Sequence[float],
    words: typing.Any = (),
    truncated: bool = False,
) -> list[Translation]:
    """Returns the possible Translations of one sentence.

    `words` has the attributes of Translation about its words.
    """
    return [
        Translation(text, score, **dict(words), source_truncated=truncated)
        for text, score in zip(texts, scores)
        if score > MIN_POSSIBLE_SCORE
    ]


def word_attributes(
    source_words: np.ndarray,
    target_words: np.ndarray,
    attention: np.ndarray,
    token_log_probs: np.ndarray,
) -> dict[str, typing.Any]:
    """Returns alignment and word_log_probs of a Translation.

    See `word_alignment`; `token_log_probs` are float [T].
    """
    # An empty list from a server has lost its last axis.
    source_words = source_words.reshape(-1, 2)
    target_words = target_words.reshape(-1, 2)
    return {
        "alignment": word_alignment(source_words, target_words, attention),
        "word_log_probs": word_log_probs(target_words, token_log_probs),
    }


def word_log_probs(
    target_words: np.ndarray, token_log_probs: np.ndarray
) -> tuple[float, ...]:
    """Returns the log-probability of each word; see above."""
    sums = [0.0] * (target_words.max(initial=-1) + 1)
    for (first, last), log_prob in zip(
        target_words.tolist(), token_log_probs.tolist()
    ):
        for word in range(first, last + 1) if first >= 0 else ():
            sums[word] += log_prob
    return tuple(sums)


def word_alignment(
    source_words: np.ndarray, target_words: np.ndarray, attention: np.ndarray
) -> tuple[tuple[int, int], ...]:
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
