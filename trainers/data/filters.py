"""Rules that remove sentence pairs, as those of OpusFilter and OpusCleaner."""

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from export.common import command
from export.documents.patterns import NO_SPACES

_SPACES = re.compile(r"\s+")
_LETTER = re.compile(r"[^\W\d_]")
# Digits with separators between, as in 1 000,5 and 12:30.
_NUMBER = re.compile(
    r"\d{1,3}(?:[\u00a0\u202f ]\d{3}(?!\d))+(?:[.,]\d+)?|\d+(?:[.,:']\d+)*"
)
_WORD = re.compile(r"[^\W\d_]+")
_MARKUP = re.compile(
    r"</?[a-zA-Z][\w:-]*(?:\s[^<>]*)?/?>|&(?:[a-zA-Z]{2,8}\d{0,2}|#\d{1,6}|#[xX][0-9a-fA-F]{1,6});"
)
_NO_SPACES = re.compile(f"[{NO_SPACES}]")


def _has_few_letters(source, target, share):
    """Letters are less than this share of the characters of a side."""
    return any(
        len(_LETTER.findall(text)) < share * len(_SPACES.sub("", text))
        for text in (source, target)
    )


def _has_other_numbers(source, target, share):
    """More than this share of the numbers are on one side alone."""
    source, target = (
        [*map(_digits, _NUMBER.findall(text))] for text in (source, target)
    )
    different = {*source} ^ {*target}
    return len(different) > share * len({*source} | {*target})


def _digits(number):
    """Returns the digits of any script as 0 to 9."""
    return "".join(
        str(unicodedata.decimal(each)) for each in number if each.isdecimal()
    )


def _has_same_words(source, target, share):
    """More than this share of the shorter side's words is on both sides."""
    source, target = (
        {*_WORD.findall(text.lower())} for text in (source, target)
    )
    shorter = min(len(source), len(target))
    # Names alone are the same in many languages.
    return shorter > 3 and len(source & target) > share * shorter


def _has_markup(source, target, count):
    """A side has more than this number of tags and entities."""
    return any(len(_MARKUP.findall(text)) > count for text in (source, target))


def _has_long_words(source, target, length):
    """The mean word of a side has more than this number of characters."""
    return any(
        len(_SPACES.sub("", text)) > length * len(text.split())
        for text in (source, target)
        if not _NO_SPACES.search(text)
    )


def _is_equal(source, target, letters):
    """Both sides are equal but for case, with more than this many letters."""
    return (
        source.lower() == target.lower()
        and len(_LETTER.findall(source)) > letters
    )


# Whether a rule removes a pair at a threshold, and its default threshold.
FILTERS = {
    "letters": (_has_few_letters, 0.4),
    "numbers": (_has_other_numbers, 0.0),
    "identical": (_has_same_words, 0.6),
    "markup": (_has_markup, 0.0),
    "word_length": (_has_long_words, 20.0),
    "equal": (_is_equal, 0.0),
}


def find_filter(
    pair: tuple[str, str],
    normalizers: Sequence[Callable[[str], str]],
    thresholds: Mapping[str, float],
) -> str | None:
    """Returns the first rule that removes a pair, or None.

    `normalizers` has a function of each side, as in TextCodec, and `thresholds`
    is a dict by rule from `parse_filters`.
    """
    if not thresholds:
        return None
    source, target = (
        normalize(text) for text, normalize in zip(pair, normalizers)
    )
    for name, threshold in thresholds.items():
        removes, _ = FILTERS[name]
        if removes(source, target, threshold):
            return name
    return None


def parse_filters(text: str) -> dict[str, float]:
    """Returns the thresholds of a str such as "letters=0.5,markup".

    Raises InputError for an unknown rule, and for a threshold that is no number
    of at least 0.
    """
    return command.parse_named_numbers(
        "filters",
        text,
        {name: default for name, (_, default) in FILTERS.items()},
        sys.float_info.max,
        f"rules with commas between, of {', '.join(FILTERS)}, each alone or "
        "with its threshold as in letters=0.5",
    )
