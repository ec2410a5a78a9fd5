"""Tells which translations a person should look at, and why."""

import collections
import itertools
import re
import unicodedata

from export.documents.patterns import CHINESE, NO_SPACES
from export.translators.languages import base_code

# Up to this many times the letters of a text, and some more, may translate it.
_MAX_RATIO, _MAX_EXTRA = 2, 15
# Latin letters that a Chinese, Japanese or Korean one may stand for.
_WIDE_LETTER = 3
# Number of words of a sequence that may not occur more often than any of the
# source.
_SEQUENCE = 3
# Minimum number of words, and maximum share of them that the source may have.
_MIN_WORDS, _MAX_COPIED = 5, 0.7

_WORD = re.compile(rf"[{NO_SPACES}]|(?:(?![{NO_SPACES}])[^\W\d_])+")
_WIDE = re.compile(f"[\\uac00-\\ud7a3{CHINESE}]")
# Within a word, such as "ananananan".
_LOOP = re.compile(r"([^\W\d_]{2,8}?)\1{3}")
# The first words of the Unicode names of the letters of languages with one
# script; also the last part of codes such as rus_Cyrl.
_SCRIPTS = {
    code: tuple(scripts.split())
    for codes, scripts in {
        "latn af ca cs cy da de en es et eu fi fr ga gl hr hu id is it lt lv "
        "ms mt nb nl nn no pl pt ro sk sl sq sv sw tl tr vi": "LATIN",
        "cyrl be bg kk ky mk ru tg uk": "CYRILLIC",
        "arab ar fa ps ur": "ARABIC",
        "deva hi mr ne": "DEVANAGARI",
        "hebr he": "HEBREW",
        "grek el": "GREEK",
        "armn hy": "ARMENIAN",
        "geor ka": "GEORGIAN",
        "beng bn": "BENGALI",
        "taml ta": "TAMIL",
        "telu te": "TELUGU",
        "thai th": "THAI",
        "hans hant zh": "CJK",
        "hang ko": "HANGUL CJK",
        "jpan ja": "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA",
    }.items()
    for code in codes.split()
}


def find_suspicion(
    text: str, translation: str, language: str | None = None
) -> str:
    """Returns why a translation may be wrong, "" if nothing is known.

    "short" and "long" have half or twice the letters of the text; "repeating"
    has a sequence of words, or a part of a word, more often than the text;
    "copied" is mostly words of the text; "script" has letters that the
    `language`, a code, is not written in, nor are in the text.
    """
    lengths = _length(text), _length(translation)
    if _is_longer(*lengths):
        return "short"
    if _is_longer(*reversed(lengths)):
        return "long"
    sources, targets = (
        _WORD.findall(each.casefold()) for each in (text, translation)
    )
    if _count_sequences(targets) > max(1, _count_sequences(sources)) or (
        _LOOP.search(translation.casefold())
        and not _LOOP.search(text.casefold())
    ):
        return "repeating"
    if len(targets) >= _MIN_WORDS:
        known = {*sources}
        if sum(each in known for each in targets) > _MAX_COPIED * len(targets):
            return "copied"
    return "script" if _has_another_script(text, translation, language) else ""


def _length(text):
    return len(text) + (_WIDE_LETTER - 1) * len(_WIDE.findall(text))


def _is_longer(length, other):
    return length > _MAX_RATIO * other + _MAX_EXTRA


def _count_sequences(words):
    """Returns how often the most frequent sequence of words occurs."""
    shifted = (itertools.islice(words, i, None) for i in range(_SEQUENCE))
    return max(collections.Counter(zip(*shifted)).values(), default=0)


def _has_another_script(text, translation, language):
    """Whether most letters that the text lacks are of another script."""
    code = language or ""
    scripts = _SCRIPTS.get(re.split("[-_]", code.lower())[-1]) or _SCRIPTS.get(
        base_code(code)
    )
    letters = [each for each in translation if each.isalpha()]
    if scripts is None or not letters:
        return False
    others = [
        each
        for each in letters
        if each not in text
        and not unicodedata.name(each, "").startswith(scripts)
    ]
    return 2 * len(others) > len(letters)
