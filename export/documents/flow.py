"""Flows: text that is translated in one go, with what it has besides words."""

import itertools
import math
import re

import sentencex

from export.documents.items import ATOM, Item, Kind, MovedItem
from export.documents.patterns import LETTER, MARKS, NO_SPACES, WIDE_MARKS

# Ends of clauses, the boundaries within a sentence that is too long.
_CLAUSE = re.compile(
    r"[,;:)\]\u2013\u2014\u060c\u061b](?=\s)|[\u3001\uff0c\uff1b\uff1a]"
    r"|\s(?=[(\[\u2013\u2014])"
)
_SPACE = re.compile(r"\s+")
# What a blank may follow, and precede.
_BEFORE_SPACE = re.compile(r"[^\s(\[{\u00ab\u201c\u2018\u00bf\u00a1/-]")
_AFTER_SPACE = re.compile(rf"[\w{ATOM}(\[{{\u00ab\u201c\u2018\u00bf\u00a1]")
LINE_END = re.compile("[\n\r\v\f\x85\u2028\u2029]")
_UNSPACED = re.compile(f"[{NO_SPACES}{WIDE_MARKS}]")
# Ends of quotes and brackets, which sentencex puts before the next sentence.
_CLOSERS = re.compile(
    "[\u2019\u201d\u3009\u300b\u300d\u300f\u3011\u3015\u3017\uff09\uff3d\uff5d\uff63]+"
)
_ATTACHED = re.compile(f"{LETTER}|{ATOM}")
_LETTER = re.compile(LETTER)
_BOUNDARY = re.compile(rf"(?!^|[{MARKS}])")
# Longer sentences are split there, before the model's limit is known.
_MAX_SENTENCE_CHARACTERS = 4000
# Characters on each side of the middle among which a boundary is sought.
_MAX_WINDOW = 1000


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
    def texts(self):
        """The text and its translation, which may be the same."""
        is_same = self.translation is None
        return self.text, self.text if is_same else self.translation

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
        for item in self.items:
            if item.kind is Kind.ATOM:
                item.kind, item.text = Kind.OBJECT, ""
        self._set_items(_separate_objects(self.items))

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
    items = _separate_objects(_settle_atoms(items))
    text = "".join([item.text for item in items])
    if not text.isascii():
        text = _close_lines(items, text)
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
                and not (
                    _UNSPACED.match(previous) and _UNSPACED.match(item.text)
                )
            ):
                objects[0].text = " "
            objects, previous = [], item.text[-1]
    return items


def _settle_atoms(items):
    """Makes adjacent placeholders, such as "%d%%", one: models copy words.

    Those within words, as in "%sMB", become marks.
    """
    if not any([item.kind is Kind.ATOM for item in items]):
        return items
    text = "".join([item.text for item in items])
    settled, offset = [], 0
    for kind, group in itertools.groupby(items, lambda item: item.kind):
        if kind is not Kind.ATOM:
            group = [*group]
            offset += sum([len(item.text) for item in group])
            settled += group
            continue
        first, *others = group
        if others:
            atoms = [first, *others]
            raws = ["".join([item.raw for item in atoms]), ATOM]
            origin = "".join([item.origin for item in atoms])
            first = MovedItem(origin, kind, *raws)
        before, offset = offset - 1, offset + 1 + len(others)
        is_attached = _LETTER.match(text, offset) or (
            before >= 0 and _ATTACHED.match(text, before)
        )
        if is_attached:
            first.kind, first.text = Kind.VOID, ""
        settled.append(first)
    return settled


def _close_lines(items, text):
    """Removes spaces of line ends in scripts without spaces.

    Returns the text of the items, given that before.
    """
    offset = 0
    for item in items:
        end = offset + len(item.text)
        if (
            item.kind is Kind.SPACE
            and LINE_END.search(item.raw)
            and offset
            and _UNSPACED.match(text, offset - 1)
            and _UNSPACED.match(text, end)
        ):
            item.text = ""
        offset = end
    return "".join([item.text for item in items])


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
            closers = _CLOSERS.match(text, start)
            yield closers.end() if closers else start


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
