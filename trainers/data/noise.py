"""Changes some training pairs to text as people type it.

Kinds are upper, title and lower case, of both sides, and, of the source alone,
typing errors, missing or repeated final punctuation, and exchanged quotes.
Mozilla trains its translators with such modifiers (OpusTrainer).
"""

import math
import random
import re
import unicodedata
import zlib

from export.common.errors import InputError

# One letter in so many is mistyped, at least one in a sentence.
_LETTERS_PER_TYPO = 20
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_FINAL = re.compile(r"[.!?…。！？।؟]+(?=[\"'”’»)\]]*$)")
_WORD = re.compile(r"\S+")
_QUOTES = ("\"'", "“’", "„’", "«’", "”'", "‘`")
_DOUBLE_QUOTE, _SINGLE_QUOTE = re.compile("[\"“”„«»]"), re.compile("['’‘ʼ`]")
_DOTTED = ("tr", "az")
_TONOS = "\u0301"


def add_noise(pairs, rates, languages=("", "")):
    """Yields (source, target) pairs, some with noise.

    `rates` has the share of pairs of each kind, which are chosen independently
    of each other. The noise of a pair depends on the pair alone, and on its two
    `languages`.
    """
    share = 1 - math.prod(1 - rate for rate in rates.values())
    for pair in pairs:
        text = "\t".join(pair)
        # Another number than that of `add_copies`.
        if zlib.crc32(text.encode(), 1) < share * 2**32:
            rng = random.Random(f"noise\t{text}")
            kinds = []
            while not kinds:
                kinds = [kind for kind in rates if rng.random() < rates[kind]]
            for kind in kinds:
                pair = KINDS[kind](rng, *pair, *languages)
        yield pair


def to_upper(text, language):
    """Returns text in capitals, as a language writes it."""
    if language in _DOTTED:
        text = text.replace("i", "İ")
    text = text.upper()
    if language == "el":
        letters = unicodedata.normalize("NFD", text).replace(_TONOS, "")
        text = unicodedata.normalize("NFC", letters)
    return text


def to_lower(text, language):
    """Returns text in small letters, as a language writes it."""
    if language in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def to_title(text, language):
    """Returns text with a capital at the beginning of each word."""

    def capitalize(match):
        word = match.group()
        first = next((i for i, c in enumerate(word) if c.isalpha()), 0)
        end = first + 1
        if language == "nl" and word[first : first + 2] == "ij":
            end += 1
        return word[:first] + to_upper(word[first:end], language) + word[end:]

    return _WORD.sub(capitalize, text)


def _change_case(change):
    def change_pair(rng, source, target, source_language, target_language):
        del rng
        return change(source, source_language), change(target, target_language)

    return change_pair


def _change_source(change):
    def change_pair(rng, source, target, *languages):
        del languages
        return change(rng, source), target

    return change_pair


def _mistype(rng, text):
    letters = [i for i, c in enumerate(text) if c.isalpha()]
    if len(letters) < 2:
        return text
    characters = list(text)
    expected = len(letters) / _LETTERS_PER_TYPO
    count = max(1, int(expected + rng.random()))
    for index in rng.sample(letters, count):
        make = rng.choice((_swap, _drop, _double, _press_neighbour))
        make(rng, characters, index)
    return "".join(characters).strip() or text


def _swap(rng, characters, index):
    del rng
    other = index + 1
    if other < len(characters) and characters[other].isalpha():
        pair = characters[index], characters[other]
        characters[other], characters[index] = pair


def _drop(rng, characters, index):
    del rng
    characters[index] = ""


def _double(rng, characters, index):
    del rng
    characters[index] *= 2


def _press_neighbour(rng, characters, index):
    letter = characters[index]
    for row, keys in enumerate(_KEYBOARD):
        column = keys.find(letter.lower())
        if letter and column >= 0:
            places = [(row, column - 1), (row, column + 1)]
            places += [(row - 1, column), (row - 1, column + 1)]
            places += [(row + 1, column - 1), (row + 1, column)]
            near = [
                _KEYBOARD[r][c]
                for r, c in places
                if 0 <= r < len(_KEYBOARD) and 0 <= c < len(_KEYBOARD[r])
            ]
            key = rng.choice(near)
            characters[index] = key.upper() if letter.isupper() else key


def _change_punctuation(rng, text):
    final = _FINAL.search(text)
    if not final:
        return text
    other = rng.choice(("", "", "", final[0] * 2, final[0] * 3))
    return f"{text[: final.start()]}{other}{text[final.end() :]}".rstrip()


def _change_quotes(rng, text):
    double, single = rng.choice(_QUOTES)
    text = _DOUBLE_QUOTE.sub(double, text)
    return _SINGLE_QUOTE.sub(single, text)


KINDS = {
    "upper": _change_case(to_upper),
    "title": _change_case(to_title),
    "lower": _change_case(to_lower),
    "typos": _change_source(_mistype),
    "punctuation": _change_source(_change_punctuation),
    "quotes": _change_source(_change_quotes),
}


def parse_noise(text):
    """Returns the rate of each kind in a text such as "lower=0.1,typos=0.1"."""
    rates = {}
    for item in filter(None, text.split(",")):
        kind, _, rate = item.partition("=")
        try:
            rates[kind] = float(rate)
        except ValueError:
            rates[kind] = -1
        if kind not in KINDS or not 0 <= rates[kind] <= 1:
            raise InputError(
                f"Expected kind=rate with a kind of {', '.join(KINDS)} and a "
                f"rate from 0 to 1 in --noise, got {item!r}."
            )
    return rates
