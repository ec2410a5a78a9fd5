"""Text in capitals, or with a capital at each word, as small letters.

A vocabulary with the tokens of two marks stands for "THE STATION" as a mark and
"the station", on both sides: a model needs few examples to translate capitals,
and no tokens of their own. Berard et al. 2019 and Etchegoyhen and Gete 2020
mark each word.
"""

import functools
import itertools
import re
import sys
import unicodedata

from export.tokenizers.tags import SPACE

# Not characters, so in no text; Unicode reserves them for uses such as this.
UPPER_MARK, TITLE_MARK = CASE_MARKS = "\ufdd0", "\ufdd1"
ANY_MARK = f"[{UPPER_MARK}{TITLE_MARK}] ?"
_SPACES = r"\t\n\f\r "
_LETTERS = "LuLlLtLmLo"
_ANY_MARK = re.compile(ANY_MARK)


def has_case_marks(pieces):
    """Whether SentencePiece's pieces, an iterable of str, have the marks."""
    return {f"{SPACE}{mark}" for mark in CASE_MARKS}.issubset(pieces)


@functools.cache
def case_patterns():
    """Returns two regular expressions of whole texts, for Python and RE2.

    The first is of at least two capitals without small letters, the second of
    words such as "Where", "(Paris" and "18", at least three of them of letters.
    """
    capital, small, letter = map(_character_class, ("Lu", "LlLt", _LETTERS))
    other = f"[^{small}]*"
    title = f"[^{letter}{_SPACES}]*[{capital}][^{capital}{_SPACES}]*"
    number = f"[^{letter}{_SPACES}]+"
    gap = f"(?:[{_SPACES}]+{number})*[{_SPACES}]+"
    return (
        f"{other}[{capital}]{other}[{capital}]{other}",
        f"[{_SPACES}]*(?:{number}[{_SPACES}]+)*{title}(?:{gap}{title}){{2,}}"
        f"(?:[{_SPACES}]+{number})*[{_SPACES}]*",
    )


@functools.cache
def word_pattern():
    """Returns the pattern of a word: text before a letter, the letter, rest."""
    letter = _character_class(_LETTERS)
    return f"(?s)^([^{letter}]*)([{letter}]?)(.*)$"


def mark_case(text):
    """Returns a str with a mark and small letters if it matches a pattern."""
    text = _ANY_MARK.sub("", text)
    for mark, pattern in zip(CASE_MARKS, _compiled_patterns()):
        if pattern.fullmatch(text):
            return f"{mark} {text.lower()}"
    return text


def restore_case(text):
    """Returns a str of a mark and small letters as text in capitals."""
    mark, text = text[:1], _ANY_MARK.sub("", text)
    if mark == UPPER_MARK:
        return text.upper()
    if mark == TITLE_MARK:
        matches = (re.match(word_pattern(), word) for word in text.split(" "))
        return " ".join(
            match[1] + match[2].upper() + match[3] for match in matches
        )
    return text


@functools.cache
def _compiled_patterns():
    return [*map(re.compile, case_patterns())]


def _character_class(categories):
    """Returns ranges of the characters of some Unicode categories."""
    is_member = [
        unicodedata.category(chr(code)) in categories
        for code in range(sys.maxunicode + 1)
    ]
    ranges = (
        [code for code, _ in group]
        for is_in, group in itertools.groupby(
            enumerate(is_member), lambda pair: pair[1]
        )
        if is_in
    )
    return "".join(f"{chr(each[0])}-{chr(each[-1])}" for each in ranges)
