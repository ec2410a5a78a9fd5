"""Changes some training pairs to text as people type it.

Capitals and small letters change both sides, other kinds the source alone, so
that a model corrects them. Mozilla's OpusTrainer has such modifiers, too.
"""

import math
import random
import re
import typing
import unicodedata
import zlib
from collections.abc import Iterable, Iterator

from export.common import command
from export.translators.languages import base_code
from trainers.augmentation.word_pairs import (
    WordPairs,
    learn_word_pairs,
    select_phrase,
)

# About one letter in so many is mistyped, and about one of a short text.
_LETTERS_PER_TYPO = 20
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
# The keys beside each, on its row, the one above and the one below.
_NEIGHBORS = ((0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0))
_FINAL_PUNCTUATION = re.compile(r"\s*([.!?…。！？।؟])+(?=[\"'”’»)\]]*$)")
_FIRST_LETTER = re.compile(r"(?<!\S)([^\w\s]*)(ij|\w)")
_DOUBLE_QUOTE, _SINGLE_QUOTE = re.compile('["“”„«»]'), re.compile("['’‘ʼ`]")
# Double and single ones that people use for all others.
_QUOTES = ("\"'", "“’", "”'", "„’", "«’", "“`")
_ACUTE_ACCENT = "\u0301"


class Noise(typing.NamedTuple):
    """Settings of `add_noise`.

    `rates` has the share of pairs of each kind; the kinds are chosen
    independently of each other. `languages` are those of source and target, and
    `translations` come from `learn_word_pairs`.
    """

    rates: dict[str, float] = {}
    languages: tuple[str, str] = ("", "")
    translations: WordPairs = {}


class _NoiseMaker:
    """The kinds of noise: methods of (source, target) that return a pair."""

    def __init__(self, rng, noise):
        self._rng = rng
        self._languages = [*map(base_code, noise.languages)]
        self._translations = noise.translations

    def upper(self, *pair):
        """Text in capitals."""
        return tuple(map(to_upper, pair, self._languages))

    def title(self, *pair):
        """Text with a capital at each word."""
        return tuple(map(_to_title, pair, self._languages))

    def lower(self, *pair):
        """Text without capitals."""
        return tuple(map(to_lower, pair, self._languages))

    def typos(self, source, target):
        """Letters that are swapped, missing, doubled, or of another key."""
        letters = [i for i, letter in enumerate(source) if letter.isalpha()]
        if len(letters) < 2:
            return source, target
        expected = len(letters) / _LETTERS_PER_TYPO
        count = max(1, int(expected + self._rng.random()))
        # A last empty item, so that each letter has a next one.
        characters = [*source, ""]
        for index in self._rng.sample(letters, count):
            letter, other = characters[index : index + 2]
            swapped = [other, letter] if other.isalpha() else [letter, other]
            characters[index : index + 2] = self._rng.choice(
                (
                    swapped,
                    ["", other],
                    [letter * 2, other],
                    [self._press_neighbor(letter), other],
                )
            )
        return "".join(characters).strip() or source, target

    def punctuation(self, source, target):
        """Final punctuation that is missing or repeated."""
        times = self._rng.choice((0, 0, 0, 2, 3))
        changed = _FINAL_PUNCTUATION.sub(
            lambda match: match[1] * times, source, count=1
        )
        return changed or source, target

    def quotes(self, source, target):
        """Other quotation marks and apostrophes."""
        double, single = self._rng.choice(_QUOTES)
        source = _DOUBLE_QUOTE.sub(double, source)
        return _SINGLE_QUOTE.sub(single, source), target

    def words(self, source, target):
        """A word or a phrase alone."""
        return select_phrase(self._rng, self._translations, source, target)

    def _press_neighbor(self, letter):
        for row, keys in enumerate(_KEYBOARD):
            column = keys.find(letter.lower()) if letter else -1
            if column >= 0:
                row_offset, offset = self._rng.choice(_NEIGHBORS)
                near = "".join(
                    _KEYBOARD[row + row_offset : row + row_offset + 1]
                )
                near = near[max(column + offset, 0) :][:1] or letter
                return near.upper() if letter.isupper() else near
        return letter


KINDS = ("upper", "title", "lower", "typos", "punctuation", "quotes", "words")
CASE_KINDS = ("upper", "title", "lower")
# The kinds of `change_text`.
SOURCE_KINDS = KINDS[:-1]


def add_noise(
    pairs: Iterable[tuple[str, str]], noise: Noise
) -> Iterator[tuple[str, str]]:
    """Yields (source, target) pairs, some with Noise.

    The noise of a pair depends on the pair and on `noise` alone.
    """
    rates = noise.rates
    share = 1 - math.prod(1 - rate for rate in rates.values())
    for pair in pairs:
        text = "\t".join(pair)
        # With another start than in `add_copies`, or it would be in its pairs.
        if zlib.crc32(text.encode(), 1) < share * 2**32:
            rng = random.Random(f"noise\t{text}")
            kinds: list[str] = []
            while not kinds:
                kinds = [kind for kind in rates if rng.random() < rates[kind]]
            maker = _NoiseMaker(rng, noise)
            for kind in kinds:
                pair = getattr(maker, kind)(*pair)
        yield pair


def make_noise(
    corpus: typing.Any, data_source: typing.Any, num_pairs: int
) -> Noise:
    """Returns the Noise of a DataSource for a Corpus of `num_pairs`."""
    rates, translations = parse_noise(data_source.noise), {}
    if rates.get("words"):
        print("Aligning words of the training text.", flush=True)
        translations = learn_word_pairs(corpus.pairs("train"), num_pairs)
    languages = data_source.source_language, data_source.target_language
    return Noise(rates, languages, translations)


def change_text(kind: str, text: str, language: str) -> str:
    """Returns a source with noise of one of SOURCE_KINDS."""
    noise = Noise(languages=(language, language))
    maker = _NoiseMaker(random.Random(text), noise)
    return getattr(maker, kind)(text, text)[0]


def has_dotless_i(language: str) -> bool:
    """Returns whether I and i are different letters of a language."""
    return base_code(language) in ("tr", "tur", "az", "aze")


def to_upper(text: str, language: str) -> str:
    """Returns text in capitals, as a language writes them."""
    if has_dotless_i(language):
        text = text.replace("i", "İ")
    text = text.upper()
    if language == "el":
        letters = unicodedata.normalize("NFD", text).replace(_ACUTE_ACCENT, "")
        text = unicodedata.normalize("NFC", letters)
    return text


def to_lower(text: str, language: str) -> str:
    """Returns text in small letters, as a language writes them."""
    if has_dotless_i(language):
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def _to_title(text, language):
    """Returns text with a capital at each word, as a language writes it."""

    def capitalize(match):
        size = 2 if language == "nl" else 1
        letters = match[2]
        return match[1] + to_upper(letters[:size], language) + letters[size:]

    return _FIRST_LETTER.sub(capitalize, text)


def parse_noise(text: str) -> dict[str, float]:
    """Returns the rate of each kind in a str such as "lower=0.1,typos=0.1".

    Raises InputError for an unknown kind, and for a rate outside 0 to 1.
    """
    return command.parse_named_numbers(
        "noise",
        text,
        dict.fromkeys(KINDS, math.nan),
        1.0,
        f"kind=rate with commas between, a kind of {', '.join(KINDS)} and a "
        "rate from 0 to 1",
    )
