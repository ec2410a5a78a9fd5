"""Rules for training pairs: duplicates, languages, ratio of the lengths."""

import array
import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from export.common.errors import InputError
from export.documents.patterns import MARKS
from export.translators.languages import base_code
from trainers.data.corpus import Corpus

# Probability below which a text may be of any language. Of Tatoeba's sentences
# of six words, 0.14 % are then taken for another language, of longer ones none.
_MIN_CONFIDENCE = 0.5
# Python's \w has no vowel signs, as of Hindi.
_WORD = re.compile(rf"(?:[^\W_]|[{MARKS}])+")
_HASH_BYTES = 8
_HASH_MASK = (1 << 8 * _HASH_BYTES) - 1
# An odd number, so that repetitions of a pair have different hashes.
_REPETITION = 0x9E3779B97F4A7C15
# Hashes are sorted in groups, in a fraction of the memory.
_NUM_GROUPS = 16


def exceeds_ratio(
    source_length: int, target_length: int, max_ratio: float
) -> bool:
    """Whether one side has over `max_ratio` times the other's tokens.

    Lengths include end tokens, which do not count: they would distort the
    ratios of short sentences.
    """
    short, long = sorted((source_length - 1, target_length - 1))
    return long > max_ratio * short


class DuplicateFinder:
    """Finds training pairs that occurred before, in 8 bytes per pair.

    Compares the texts that `normalizers`, a function for each side, return; if
    `ignores_marks` without case, and without all but letters and digits.
    `read_pairs` of a Corpus comes first. With 1e9 pairs, two different ones
    have equal hashes with probability 0.03.
    """

    def __init__(
        self,
        normalizers: Sequence[Callable[[str], str]] = (str, str),
        ignores_marks: bool = False,
    ):
        self._hashes = array.array("Q")
        self._normalizers = normalizers
        self._fold = _fold_marks if ignores_marks else str

    def read_pairs(self, corpus: Corpus) -> Iterator[tuple[str, str]]:
        """Yields the training pairs, and stores their hashes."""
        normalize_source, normalize_target = self._normalizers
        for (source, target), times in corpus.repeated_pairs("train"):
            # No side contains a line break.
            sides = normalize_source(source), normalize_target(target)
            content = "\n".join(map(self._fold, sides)).encode()
            digest = hashlib.blake2b(content, digest_size=_HASH_BYTES).digest()
            value = int.from_bytes(digest, "little")
            for _ in range(times):
                self._hashes.append(value)
                value = (value + _REPETITION) & _HASH_MASK
                yield source, target

    def find_unique(self) -> np.ndarray:
        """Returns for each pair whether it is the first such, bool [pairs].

        A pair that its corpus repeats stays as often as it is repeated.
        """
        hashes = np.frombuffer(self._hashes, np.uint64)
        is_unique = np.zeros(len(hashes), bool)
        groups = hashes.view(np.uint8)[::_HASH_BYTES] % _NUM_GROUPS
        for group in range(_NUM_GROUPS):
            indices = np.flatnonzero(groups == group)
            _, first = np.unique(hashes[indices], return_index=True)
            is_unique[indices[first]] = True
        return is_unique


def _fold_marks(text):
    """Returns letters and digits without case; other text as it is."""
    return "".join(_WORD.findall(text.casefold())) or text


def validate_languages(corpus: Corpus) -> None:
    """Raises InputError unless the languages of a Corpus can be identified."""
    identifier = _load_identifier()
    for language in (corpus.source_language, corpus.target_language):
        if base_code(language) not in identifier.labels:
            raise InputError(
                f"py3langid does not know the language {language!r}; expected "
                "a code such as en or pt_BR, or no --check_languages."
            )


def has_languages(
    pair: tuple[str, str],
    languages: Sequence[str],
    normalizers: Sequence[Callable[[str], str]] = (str, str),
) -> bool:
    """Whether no text of a pair is clearly of another of the languages.

    `normalizers` has a function of each side, as in TextCodec.
    """
    classify = _load_identifier().classify
    return all(
        classify(normalize(text))[0] in (base_code(language), "und")
        for text, language, normalize in zip(pair, languages, normalizers)
    )


@functools.cache
def _load_identifier():
    try:
        from py3langid import langid
    except ImportError as error:
        raise InputError(
            "--check_languages needs py3langid, on each machine; pip install "
            "'py3langid>=0.4', or omit the flag."
        ) from error
    return langid.LanguageIdentifier.from_model_file(
        langid.MODEL_FILE, norm_probs=True, min_confidence=_MIN_CONFIDENCE
    )
