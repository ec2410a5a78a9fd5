"""Finds what translations should contain as it is, such as addresses."""

import re

from export.documents.patterns import ADDRESS, EMOJI, MARKS, NO_SPACES

KINDS = ("emoji", "numbers", "rare", "urls")
# Longer items, and more in a sentence, are left to the model.
MAX_ITEMS, MAX_CHARACTERS = 16, 200
# Shorter numbers are often written as words.
MIN_DIGITS = 2
_LETTER = rf"(?:(?![{NO_SPACES}])[\w{MARKS}])"
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
    rf"|(?<!{_LETTER})(?<![0-9][.,:/])(?P<numbers>[0-9]+(?:-[0-9]+){{2,}}"
    rf"|(?:[0-9]+\.)+[xX]|{_NUMBER})"
    rf"(?!{_LETTER}|[.,:/][0-9])"
    # What else may have a rare character.
    rf"|(?P<rare>{_LETTER}+|[^\w\s])"
)


def find_items(text, kinds, rare=()):
    """Returns the items of a text: a dict of str to tuples of variants.

    Numbers may have other marks in a translation, so they have variants. Of
    the kind "rare" are the words and symbols in `rare`.
    """
    items = {}
    for match in _ITEM.finditer(text):
        kind, item = match.lastgroup, match[0]
        is_item = kind in kinds and (kind != "rare" or item in rare)
        # "|" separates variants.
        if is_item and len(item) <= MAX_CHARACTERS and "|" not in item:
            variants = _variants(match) if kind == "numbers" else (item,)
            if variants and len(items) < MAX_ITEMS:
                items[item] = variants
    return items


def words(text):
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
