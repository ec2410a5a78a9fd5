"""Flows: text that is translated in one go, with what it has besides words."""

import enum
import html
import itertools
import math
import re
import sys

import sentencex

from export.documents.patterns import (
    ADDRESS,
    DIRECTION,
    EMOJI,
    INVISIBLE,
    MARKS,
)

# Stands for a placeholder in the text of a flow.
ATOM = "\ufffc"

_PLACEHOLDER = (
    rf"{ADDRESS}"
    # {{x}}, {% x %}; {name}, {0:.2f}, {a!r}, ${x}, %{x}.
    r"|\{\{[^{}]*\}\}|\{%[^{}]*%\}"
    r"|[$#%]?\{[\w.\[\]-]*(?:[!:,][^{}]*)?\}"
    # %s, %d, %1$s, %(x)d, %.2f, %@, %%, but not the blank of "100% sure".
    r"|%(?:\(\w+\)|\d+\$)?[-+0#]*+(?:\d++|\*)?(?:\.(?:\d+|\*))?"
    r"(?:hh|ll|[hljztL])?[sdiuoxXfFeEgGcra@](?!\w)|%%|\ufffc"
)
_REFERENCE = r"&(?:\#\d+|\#[xX][\da-fA-F]+|[a-zA-Z][a-zA-Z\d]*(?![\w@]));?"
# White space other than one blank, and so on.
_TEXT_SPECIAL = re.compile(
    rf"(?:[^\S ]| \s)\s*|(?P<object>{EMOJI})|(?P<void>[{DIRECTION}])"
    rf"|(?P<invisible>[{INVISIBLE}])|{_PLACEHOLDER}"
)
_MARKUP_SPECIAL = re.compile(rf"{_TEXT_SPECIAL.pattern}|{_REFERENCE}")
_XML_ENTITIES = ("&amp;", "&lt;", "&gt;", "&quot;", "&apos;")

# Ends of clauses, the boundaries within a sentence that is too long.
_CLAUSE = re.compile(
    r"[,;:)\]\u2013\u2014\u060c\u061b](?=\s)|[\u3001\uff0c\uff1b\uff1a]"
    r"|\s(?=[(\[\u2013\u2014])"
)
_SPACE = re.compile(r"\s+")
# What a blank may follow, and precede.
_BEFORE_SPACE = re.compile(r"[^\s(\[{\u00ab\u201c\u2018\u00bf\u00a1/-]")
_AFTER_SPACE = re.compile(rf"[\w{ATOM}(\[{{\u00ab\u201c\u2018\u00bf\u00a1]")
_BOUNDARY = re.compile(rf"(?!^|[{MARKS}])")
# Longer sentences are split there, before the model's limit is known.
_MAX_SENTENCE_CHARACTERS = 4000
# Characters on each side of the middle among which a boundary is sought.
_MAX_WINDOW = 1000


class Kind(enum.Enum):
    """What an item of a flow is; the last four are marks, without text."""

    TEXT = enum.auto()
    # White space other than one blank, or what has the effect of it.
    SPACE = enum.auto()
    # A placeholder, which stands for words.
    ATOM = enum.auto()
    # A line break of HTML, before it is decided what it separates.
    BREAK = enum.auto()
    # An empty tag that is not seen, or a mark of direction.
    VOID = enum.auto()
    # What separates the words beside it: an image, emoji, or a placeholder
    # that the model does not copy. Its text is one blank if it is needed.
    OBJECT = enum.auto()
    OPEN = enum.auto()
    CLOSE = enum.auto()


class Item:
    """A part of a flow.

    Attributes:
        kind: a Kind.
        raw: its characters in the document.
        text: the characters that it means.
        element: of OPEN and CLOSE, what both tags have in common.
    """

    __slots__ = ("kind", "raw", "text", "element")

    def __init__(self, kind, raw, text="", element=None):
        self.kind, self.raw, self.text = kind, raw, text
        self.element = element

    @property
    def is_mark(self):
        """Whether it has no place in the text, as tags."""
        return self.kind in _MARKS


_MARKS = (Kind.VOID, Kind.OBJECT, Kind.OPEN, Kind.CLOSE)


def text_items(raw, document_format="text"):
    """Yields the items of a text without tags."""
    is_text = document_format == "text"
    special = _TEXT_SPECIAL if is_text else _MARKUP_SPECIAL
    start = 0
    for match in special.finditer(raw):
        found = sys.intern(match[0])
        if found[0] == "&" and not is_text:
            kind, text = _read_reference(found, document_format)
            if text == found:
                continue
        elif found.isspace():
            kind, text = Kind.SPACE, " "
        elif match["object"]:
            kind, text = Kind.OBJECT, ""
        elif match["void"]:
            kind, text = Kind.VOID, ""
        elif match["invisible"]:
            kind, text = Kind.TEXT, ""
        else:
            kind, text = Kind.ATOM, ATOM
        if start < match.start():
            between = raw[start : match.start()]
            yield Item(Kind.TEXT, between, between)
        yield Item(kind, found, text)
        start = match.end()
    if start < len(raw):
        yield Item(Kind.TEXT, raw[start:], raw[start:])


def _read_reference(raw, document_format):
    """Returns a reference's kind and text; its own raw text if it is none."""
    is_known = document_format == "html" or (
        raw.startswith("&#") or raw in _XML_ENTITIES
    )
    text = html.unescape(raw) if is_known else raw
    if text.isspace():
        return Kind.SPACE, " "
    if ATOM in text or (text == raw and raw.endswith(";")):
        # The entity of a DTD, or an error of the author.
        return Kind.ATOM, ATOM
    if re.fullmatch(f"[{DIRECTION}]", text):
        return Kind.VOID, ""
    return Kind.TEXT, re.sub(f"[{INVISIBLE}]", "", text)


class Segment:
    """A sentence of a flow, or a part of one that was too long.

    Attributes:
        items: list of Item.
        text: their text, with U+FFFC for placeholders.
        surrogate: word that is translated in place of each placeholder.
        parts: what it was split into, see `split_flow`; else None.
        translation: str; None before, or if nothing is to be changed.
        links: the translation's word alignment.
    """

    __slots__ = (
        *("items", "text", "surrogate", "parts"),
        *("translation", "links"),
    )

    def __init__(self, items):
        self._set_items(items)
        self.surrogate = ATOM
        self.parts = self.translation = None
        self.links = ()

    def _set_items(self, items):
        self.items = items
        self.text = "".join([item.text for item in items])

    @property
    def source(self):
        """What is given to the translator."""
        return self.text.replace(ATOM, self.surrogate)

    @property
    def needs_alignment(self):
        """Whether there are tags, or placeholders that could be swapped."""
        atoms = {item.raw for item in self.items if item.kind is Kind.ATOM}
        return len(atoms) > 1 or any([item.is_mark for item in self.items])

    @property
    def num_atoms(self):
        """Number of placeholders."""
        return self.text.count(ATOM)

    def remove_atoms(self):
        """Takes placeholders out of the text."""
        self._set_items(
            _separate_objects(
                [
                    Item(Kind.OBJECT, item.raw)
                    if item.kind is Kind.ATOM
                    else item
                    for item in self.items
                ]
            )
        )

    def split(self):
        """Splits it in two; returns both, or () if it is one character."""
        text = self.text
        position = _middle_boundary(text)
        if position is None:
            return ()
        spans = [(0, position), (position, len(text))]
        self.parts = cut_items(self.items, [_strip(text, *s) for s in spans])
        halves = [each for each in self.parts if isinstance(each, Segment)]
        for half in halves:
            half.surrogate = self.surrogate
        return halves


def split_flow(items, language):
    """Splits the items of a flow into sentences.

    Returns a list of Segments and, between them, lists of the items that stay
    as they are: white space, and tags between two sentences.
    """
    items = _separate_objects(_join_atoms(items))
    text = "".join([item.text for item in items])
    spans, start = [], 0
    for end in _sentence_ends(text, language):
        if any(map(str.isalpha, text[start:end])):
            spans.append(_strip(text, start, end))
        start = end
    return cut_items(items, spans)


def _separate_objects(items):
    """Gives OBJECTs between words without a space one blank; returns items."""
    if not any([item.kind is Kind.OBJECT for item in items]):
        return items
    objects, previous = [], ""
    for item in items:
        if item.kind is Kind.OBJECT:
            item.text = ""
            objects.append(item)
        elif item.text:
            if (
                objects
                and _BEFORE_SPACE.match(previous)
                and _AFTER_SPACE.match(item.text)
            ):
                objects[0].text = " "
            objects, previous = [], item.text[-1]
    return items


def _join_atoms(items):
    """Makes adjacent placeholders, such as "%d%%", one: models copy words."""
    joined = []
    for kind, group in itertools.groupby(items, lambda item: item.kind):
        if kind is Kind.ATOM:
            group = [Item(kind, "".join([each.raw for each in group]), ATOM)]
        joined += group
    return joined


def _sentence_ends(text, language):
    """Yields the offset of the end of each sentence."""
    start = 0
    while start < len(text):
        # sentencex takes seconds for 50,000 characters of "a.a.a.".
        end = start + _MAX_SENTENCE_CHARACTERS
        sentences = sentencex.segment(language, text[start:end])
        if end < len(text) and len(sentences) > 1:
            # It may go on after the window.
            sentences.pop()
        for sentence in sentences:
            start += len(sentence)
            yield start


def cut_items(items, spans):
    """Cuts items at spans of their text; see `split_flow`."""
    parts, inside, offset = [[]], [], 0
    # The last span is never reached.
    spans = iter([*spans, (math.inf, math.inf)])
    start, end = next(spans)
    for item in items:
        text = item.text
        # References to several characters are never cut.
        is_whole = item.raw != text
        length, done = len(text), 0
        while True:
            if offset >= end:
                # Marks at the end of a sentence come after it.
                parts += [Segment(inside), []]
                inside = []
                start, end = next(spans)
            is_outside = offset < start or not (inside or text)
            target, edge = (parts[-1], start) if is_outside else (inside, end)
            stop = length
            if not is_whole and offset + length > done + edge:
                stop = done + max(edge - offset, 0)
            if stop - done == length:
                target.append(item)
            elif done < stop:
                target.append(Item(item.kind, *[text[done:stop]] * 2))
            offset += stop - done
            done = stop
            if done == length:
                break
    if inside:
        parts += [Segment(inside), []]
    return parts


def _strip(text, start, end):
    found = text[start:end]
    return (
        start + len(found) - len(found.lstrip()),
        end - len(found) + len(found.rstrip()),
    )


def _middle_boundary(text):
    """Returns where to split: at a clause, else a space, else anywhere."""
    middle = len(text) // 2
    width = min(len(text) // 4, _MAX_WINDOW)
    for pattern in (_CLAUSE, _SPACE, _BOUNDARY):
        found = pattern.finditer(text, middle - width, middle + width + 1)
        ends = (match.end() for match in found)
        ends = (end for end in ends if 0 < end < len(text))
        best = min(ends, key=lambda end: abs(end - middle), default=None)
        if best is not None:
            return best
    return None
