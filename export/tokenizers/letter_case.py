"""Text in capitals, or with a capital at each word, as small letters.

A vocabulary with the tokens of two marks stands for "THE STATION" as a mark and
"the station", on both sides: a model needs few examples to translate capitals,
and no tokens of their own. Berard et al. 2019 and Etchegoyhen and Gete 2020
mark each word.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable

from export.tokenizers.tags import SPACE

# Not characters, so in no text; Unicode reserves them for uses such as this.
UPPER_MARK, TITLE_MARK = CASE_MARKS = "\ufdd0", "\ufdd1"
ANY_MARK = f"[{UPPER_MARK}{TITLE_MARK}] ?"
_SPACES = r"\t\n\f\r "
# Within [...]: characters of placeholders and addresses, not of words.
_CODE = r"@%{}$<>/\\_"
CODE_WORD = f"(?s).*[{_CODE}].*"
_ANY_MARK = re.compile(ANY_MARK)


def has_case_marks(pieces: Iterable[str]) -> bool:
    """Whether SentencePiece's pieces have the marks."""
    return {f"{SPACE}{mark}" for mark in CASE_MARKS}.issubset(pieces)


@functools.cache
def case_patterns() -> tuple[tuple[str, str, str], ...]:
    """Returns (mark, regular expression) pairs of whole texts.

    For Python and RE2. The first text is of capitals, at least two, or of words
    such as "%d" and "user@x.org" beside them. The second is of words such as
    "Where", "(Paris" and "18", at least three of them of letters.
    """
    capital, small, letter = map(character_class, ("Lu", "L[lt]", "L."))
    # Each word fits one alternative only, so that Python needs linear time.
    in_capitals = (
        # "STATION," and "5".
        f"[^{small}{_SPACES}{_CODE}]+",
        # "%d" and "https://x.org"; capitals could not be put back.
        f"[^{capital}{_SPACES}{_CODE}]*[{_CODE}][^{capital}{_SPACES}]*",
    )
    with_capital = (
        # "(Where"
        f"[^{letter}{_SPACES}]*[{capital}][^{capital}{_SPACES}]*",
        # "18" and "&"
        f"[^{letter}{_SPACES}]+",
    )
    return (
        (UPPER_MARK, _repeat(in_capitals), _count(capital, 2)),
        (TITLE_MARK, _repeat(with_capital), _count(capital, 3)),
    )


def _repeat(words):
    """Returns the pattern of a text of words, alternatives."""
    word = f"(?:{'|'.join(words)})"
    return f"[{_SPACES}]*{word}(?:[{_SPACES}]+{word})*[{_SPACES}]*"


def _count(letters, count):
    """Returns the pattern of a text with at least so many of the letters."""
    return f"(?s)(?:[^{letters}]*[{letters}]){{{count}}}.*"


@functools.cache
def word_pattern() -> str:
    """Returns the pattern of a word: text before a letter, the letter, rest."""
    letter = character_class("L.")
    return f"(?s)^([^{letter}]*)([{letter}]?)(.*)$"


def mark_case(text: str, is_token: Callable[[str], bool]) -> str:
    """Returns a text with a mark and small letters if it matches a pattern.

    A text for which the function `is_token` is true, such as the acronym "USA",
    stays as it is.
    """
    text = _ANY_MARK.sub("", text)
    for mark, words, capitals in _compiled_patterns():
        if (
            words.fullmatch(text)
            and capitals.fullmatch(text)
            and not is_token(text)
        ):
            return f"{mark} {text.lower()}"
    return text


def restore_case(text: str) -> str:
    """Returns a mark and small letters as text in capitals."""
    mark, text = text[:1], _ANY_MARK.sub("", text)
    if mark not in CASE_MARKS:
        return text
    change = _capitalize if mark == TITLE_MARK else _to_upper
    return " ".join(map(change, text.split(" ")))


def _to_upper(word):
    return word if re.fullmatch(CODE_WORD, word) else word.upper()


def _capitalize(word):
    before, letter, rest = re.match(word_pattern(), word).groups()
    return before + letter.upper() + rest


@functools.cache
def _compiled_patterns():
    return [
        (mark, *map(re.compile, patterns))
        for mark, *patterns in case_patterns()
    ]


def character_class(categories: str, excluded: str = "") -> str:
    """Returns the ranges, within [...], of characters of Unicode categories.

    `categories` is a regular expression such as "L[ul]"; `excluded` characters
    are no members.
    """
    names = _category_names()
    for character in excluded:
        begin = 2 * ord(character)
        names = f"{names[:begin]}  {names[begin + 2 :]}"
    # A name has a capital and a small letter, so a match begins with one.
    return "".join(
        f"{chr(run.start() // 2)}-{chr(run.end() // 2 - 1)}"
        for run in re.finditer(f"(?:{categories})+", names)
    )


@functools.cache
def _category_names():
    """Returns the categories of all code points, two letters each."""
    characters = map(chr, range(sys.maxunicode + 1))
    return "".join(map(unicodedata.category, characters))
