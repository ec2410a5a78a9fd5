"""Finds what translations should contain as it is, such as addresses."""

import re
from collections.abc import Collection

from export.documents.items import ATOM, Kind
from export.documents.patterns import ADDRESS, EMOJI, LETTER
from export.documents.placeholder_finder import PlaceholderFinder

KINDS = ("emoji", "numbers", "placeholders", "rare", "urls")
_FINDER = PlaceholderFinder()
# Longer items, and more in a sentence, are left to the model.
MAX_ITEMS, MAX_CHARACTERS = 16, 200
# Shorter numbers are often written as words.
MIN_DIGITS = 2
_GROUPS = r"(?P<mark>[,.'\u2019 \u00a0\u202f])[0-9]{3}(?:(?P=mark)[0-9]{3})*"
# Those of 0.125 and 1.2345 are no groups.
_NUMBER = (
    rf"(?P<whole>[1-9][0-9]{{0,2}}{_GROUPS}|[0-9]+)(?:[.,](?P<part>[0-9]+))?"
)
_ITEM = re.compile(
    rf"(?P<urls>{ADDRESS})|(?P<emoji>{EMOJI})"
    # Not parts of words, of times as 2:30, or of dates as 1.2.2020; of phone
    # numbers and the like as 555-1234-56, and of versions as 1.20.x, the
    # whole.
    rf"|(?<!{LETTER})(?<![0-9][.,:/])(?P<numbers>[0-9]+(?:-[0-9]+){{2,}}"
    rf"|(?:[0-9]+\.)+[xX]|{_NUMBER})"
    rf"(?!{LETTER}|[.,:/][0-9])"
    # What else may have a rare character.
    rf"|(?P<rare>{LETTER}+|[^\w\s])"
)


def find_items(
    text: str,
    kinds: Collection[str],
    rare: Collection[str] = (),
    finder: PlaceholderFinder = _FINDER,
) -> dict[str, tuple[str, ...]]:
    """Returns the items of a text that the search can keep.

    Each has its variants: numbers may have other marks in a translation. Of
    the kind "rare" are the words and symbols in `rare`, of "placeholders" what
    a PlaceholderFinder finds.
    """
    items = _find_all(text, kinds, rare, finder)
    # "|" separates variants.
    possible = [
        (item, variants)
        for item, variants in items.items()
        if len(item) <= MAX_CHARACTERS and "|" not in item
    ]
    return dict(possible[:MAX_ITEMS])


def find_changes(
    source: str,
    target: str,
    kinds: Collection[str],
    finder: PlaceholderFinder = _FINDER,
) -> list[str]:
    """Returns the items of a text that its translation has not as often.

    Those of the kind "rare", which are those of a vocabulary, are not checked.
    """
    return [
        item
        for item, variants in _find_all(source, kinds, (), finder).items()
        if _count(source, variants) != _count(target, variants)
    ]


def _find_all(text, kinds, rare, finder):
    items = {}
    if "placeholders" in kinds:
        parts, position = [], 0
        for start, end, kind, _ in finder.find(text):
            if kind in (Kind.ATOM, Kind.VOID):
                items[text[start:end]] = (text[start:end],)
                parts += [text[position:start], ATOM]
                position = end
        text = "".join([*parts, text[position:]])
    for match in _ITEM.finditer(text):
        kind, item = match.lastgroup, match[0]
        if kind in kinds and (kind != "rare" or item in rare):
            items[item] = _variants(match) if kind == "numbers" else (item,)
    return {item: variants for item, variants in items.items() if variants}


def _count(text, variants):
    """Returns how often a text has one of the variants of an item."""
    written = map(re.escape, sorted(variants, key=len, reverse=True))
    # Not within longer words and numbers.
    before = rf"(?<!{LETTER})" if variants[0][0].isalnum() else ""
    after = rf"(?!{LETTER})" if variants[0][-1].isalnum() else ""
    return len(re.findall(f"{before}(?:{'|'.join(written)}){after}", text))


def words(text: str) -> list[str]:
    """Returns the words and symbols of a text that may be rare."""
    found = _ITEM.finditer(text)
    return [match[0] for match in found if match.lastgroup == "rare"]


def _variants(match):
    """Returns how a number may be written, itself first; () if it is short."""
    number = match[0]
    if sum(map(str.isdigit, number)) < MIN_DIGITS:
        return ()
    whole, mark, part = match.group("whole", "mark", "part")
    if not whole:
        return (number,)
    wholes = {whole: None}
    if mark:
        wholes |= dict.fromkeys(whole.replace(mark, each) for each in ",. ")
        wholes[whole.replace(mark, "")] = None
    if not part:
        return tuple(wholes)
    written = [
        f"{each}{point}{part}"
        for each in wholes
        for point in ".,"
        if point not in each
    ]
    return tuple(dict.fromkeys([number, *written]))
