"""Finds placeholders in a flow, whatever tags are within them."""

import collections
import itertools
import re
import typing
from collections.abc import Iterable

from export.common.errors import InputError
from export.documents.flow import cut_items
from export.documents.items import ATOM, Item, Kind, MovedItem, join_texts
from export.documents.patterns import (
    ADDRESS,
    ADDRESS_BEGIN,
    LETTER,
    SNAKE_CASE,
    WIDE_MARKS,
)
from export.documents.placeholders import PAIRS, SYNTAXES

# Brackets of prose, unless the other half is longer.
_OPENINGS, _CLOSINGS = ("[", "![", "{"), ("]", "]]", "}")


def _compile_tables():
    """Returns a regular expression, and (Kind, index of Pair) by group."""
    roles = [
        (Kind.ATOM if syntax.is_word else Kind.VOID, 0, pattern)
        for syntax in SYNTAXES
        for pattern in syntax.patterns
    ]
    roles += [(Kind.CLOSE, i, each.closing) for i, each in enumerate(PAIRS)]
    roles += [
        (Kind.OPEN, index, pattern)
        for index, pair in enumerate(PAIRS)
        for pattern in pair.openings
    ]
    # Groups at the end: patterns that begin with a character are tried fast.
    pattern = "|".join(f"(?:{pattern})()" for _, _, pattern in roles)
    kinds = [(kind, index) for kind, index, _ in roles]
    return re.compile(pattern), [(Kind.ATOM, 0), *kinds]


_LISTED, _ROLES = _compile_tables()
# Paths with drives, and names, begin with letters, as addresses.
_DRIVE = rf"(?<!{LETTER})[A-Za-z]:\\"
_NAME = rf"(?<!{LETTER})(?a:{SNAKE_CASE})(?!{LETTER})"
_ADDRESS_BEGIN = re.compile(f"{ADDRESS_BEGIN}|{_DRIVE}|{_NAME}")
_ADDRESS = re.compile(
    rf"{ADDRESS}|{_NAME}|{_DRIVE}"
    rf"(?:[.,;:!?){WIDE_MARKS}]*+[^\s\"<>|?*.,;:!){WIDE_MARKS}{ATOM}]++)*+"
)
# Every address or name has one of these.
_ADDRESS_SIGN = re.compile(r"@|:(?=\S)|[wW]\.|\w_")
# A space without width.
_BREAK = "\u200b"
# Text on which patterns of users are tried.
_SAMPLE = "a B_9. \u00e9\u4e2d-(x)"


class Placeholder(typing.NamedTuple):
    """A part of a text, whose kind is ATOM, VOID, OPEN or CLOSE.

    Both halves of a pair have the same element.
    """

    start: int
    end: int
    kind: Kind
    element: object = None


class PlaceholderFinder:
    """Finds the placeholders of the tables, and those of more patterns.

    Raises InputError for a pattern that is no regular expression of Python, or
    that matches without a character.
    """

    def __init__(self, patterns: Iterable[str] = ()):
        self._patterns: list[re.Pattern[str]] = [
            _compile_pattern(each) for each in patterns
        ]

    def find(self, text: str) -> list[Placeholder]:
        """Returns the Placeholders of a text, in order."""
        given: list[Placeholder] = []
        for pattern in self._patterns:
            given += [
                Placeholder(*match.span(), Kind.ATOM)
                for match in pattern.finditer(text)
                if match[0]
            ]
            # They may be within an address.
            text = pattern.sub(lambda match: ATOM * len(match[0]), text)
        found = _find_listed(text)
        if not given:
            return found
        found = sorted([*found, *given], key=lambda each: (each[0], -each[1]))
        ends = itertools.accumulate([each.end for each in found], max)
        return [
            each for each, end in zip(found, [0, *ends]) if each.start >= end
        ]


def _compile_pattern(pattern):
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"Expected a regular expression of Python as a placeholder, got "
            f"{pattern!r}: {error}."
        ) from None
    if not all(match[0] for match in compiled.finditer(_SAMPLE)):
        raise InputError(
            f"The pattern {pattern!r} of placeholders matches without a "
            "character; expected one that matches what is to be kept."
        )
    return compiled


def _find_matches(text):
    """Yields matches of the tables and addresses that do not overlap."""
    if not _ADDRESS_SIGN.search(text):
        yield from _LISTED.finditer(text)
        return
    listed, begin = _LISTED.search(text), _ADDRESS_BEGIN.search(text)
    while listed or begin:
        is_listed = begin is None or (
            listed is not None and listed.start() < begin.start()
        )
        match = listed if is_listed else _ADDRESS.match(text, begin.start())
        yield match
        end = match.end()
        if listed and listed.start() < end:
            listed = _LISTED.search(text, end)
        if begin and begin.start() < end:
            begin = _ADDRESS_BEGIN.search(text, end)


def _find_listed(text):
    """Returns the Placeholders of the tables, a list in order."""
    found, openings = [], []
    counts = collections.Counter()

    def add(match, kind, element=None):
        found.append(Placeholder(*match.span(), kind, element))

    def pop_opening(pair):
        """Returns the last opening of a pair, or None."""
        while counts[pair]:
            other, opening = openings.pop()
            counts[other] -= 1
            if other == pair:
                return opening
            if opening[0] not in _OPENINGS:
                add(opening, Kind.VOID)
        return None

    for match in _find_matches(text):
        kind, pair = _ROLES[match.lastindex or 0]
        if kind is Kind.OPEN:
            openings.append((pair, match))
            counts[pair] += 1
        elif kind is not Kind.CLOSE:
            add(match, kind)
        else:
            opening = pop_opening(pair)
            is_bracket = match[0] in _CLOSINGS
            if opening and not (is_bracket and opening[0] in _OPENINGS):
                element = object()
                add(opening, Kind.OPEN, element)
                add(match, kind, element)
            elif not is_bracket:
                # The other half may be in another line.
                add(match, Kind.VOID)
    for _, opening in openings:
        if opening[0] not in _OPENINGS:
            add(opening, Kind.VOID)
    return sorted(found, key=lambda each: each.start)


def join_placeholders(
    items: list[Item], finder: PlaceholderFinder
) -> list[Item]:
    """Returns the items of a flow, in which each placeholder is one item.

    The item has the tags within the placeholder, and tags beside it whose
    partner is within it: "<b>tom</b>@example.org" is one. A tag whose partner
    is elsewhere follows the item, see MovedItem.
    """
    text = join_texts(items)
    # Offsets of the text without what may be between words.
    offsets = None
    if _BREAK in text:
        offsets = [i for i, each in enumerate(text) if each != _BREAK]
        text = text.replace(_BREAK, "")
    found = finder.find(text)
    if not found:
        return items
    spans = [(each.start, each.end) for each in found]
    if offsets:
        spans = [(offsets[start], offsets[end - 1] + 1) for start, end in spans]
    (joined, *gaps), segments = cut_items(items, spans)
    for placeholder, segment, after in zip(found, segments, gaps):
        inside, is_whole = segment.items, True
        if len(inside) > 1:
            inside, is_whole = _take_tags(joined, inside, after)
        joined += _join_items(inside, is_whole, placeholder)
        joined += after
    return joined


def _take_tags(before, inside, after):
    """Moves the marks beside a placeholder into it that make elements whole.

    Returns all of its items, and whether its elements are whole.
    """
    halves = {Kind.OPEN: set(), Kind.CLOSE: set()}
    partners = {Kind.OPEN: halves[Kind.CLOSE], Kind.CLOSE: halves[Kind.OPEN]}

    def count(item):
        if item.kind in halves:
            if item.element in partners[item.kind]:
                partners[item.kind].remove(item.element)
            else:
                halves[item.kind].add(item.element)

    inside = collections.deque(inside)
    for item in inside:
        count(item)
    while halves[Kind.CLOSE] and before and before[-1].is_mark:
        inside.appendleft(before.pop())
        count(inside[0])
    while halves[Kind.OPEN] and after and after[0].is_mark:
        inside.append(after.pop(0))
        count(inside[-1])
    return inside, not any(halves.values())


def _join_items(items, is_whole, placeholder):
    """Returns one item, followed by tags whose partner is missing."""
    _, _, kind, element = placeholder
    text = ATOM if kind is Kind.ATOM else ""
    if is_whole:
        raw = "".join([item.raw for item in items])
        return [Item(kind, raw, text, element)]
    others, raws = [], []
    for is_tag, group in itertools.groupby(
        items, lambda item: item.kind in (Kind.OPEN, Kind.CLOSE)
    ):
        if is_tag:
            others += group
        else:
            raws.append("".join(item.raw for item in group))
            others.append(MovedItem(raws[-1], Kind.TEXT, ""))
    return [MovedItem("", kind, "".join(raws), text, element), *others]
