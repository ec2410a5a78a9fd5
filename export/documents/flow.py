"""Splits flows, the items of a text such as a paragraph, into sentences."""

import bisect
import itertools
import math
import re
import typing
from collections.abc import Sequence

import sentencex

from export.documents.items import ATOM, Item, Kind, MovedItem, join_texts
from export.documents.patterns import LETTER, MARKS, NO_SPACES, WIDE_MARKS

# Ends of clauses, the boundaries within a sentence that is too long.
_CLAUSE = re.compile(
    r"[,;:)\]\u2013\u2014\u060c\u061b](?=\s)|[\u3001\uff0c\uff1b\uff1a]"
    r"|\s(?=[(\[\u2013\u2014])"
)
_SPACE = re.compile(r"\s+")
# Characters that a blank may follow, and that it may precede.
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
# Longer sentences are split, before the model's limit is known.
_MAX_SENTENCE_CHARACTERS = 4000
# Characters on each side of the middle among which a boundary is sought.
_MAX_WINDOW = 1000


class Segment:
    """A sentence of a flow, or a part of one that was too long.

    Attributes:
        items: those of the sentence.
        text: their text, with U+FFFC for placeholders.
        stand_in: word that the model gets in place of each placeholder.
        parts: those of a sentence that was too long; else None.
        translation: None if the sentence is not changed.
        links: the translation's word alignment.
        log_probs: those of its words, if it was aligned.
    """

    __slots__ = (
        *("items", "text", "stand_in", "parts", "translation"),
        *("links", "log_probs"),
    )

    def __init__(self, items: list[Item]):
        self.items, self.text = items, join_texts(items)
        self.stand_in = ATOM
        self.parts: SplitFlow | None = None
        self.translation: str | None = None
        self.links: Sequence[tuple[int, int]] = ()
        self.log_probs: Sequence[float] = ()

    @property
    def source(self) -> str:
        """The text that the translator gets: "See Tom" for "See %s"."""
        return self.text.replace(ATOM, self.stand_in)

    @property
    def texts(self) -> tuple[str, str]:
        """The text and its translation, which may be the same."""
        text, translation = self.text, self.translation
        return text, text if translation is None else translation

    @property
    def needs_alignment(self) -> bool:
        """Whether there are tags, or placeholders that could be swapped."""
        atoms = {item.raw for item in self.items if item.kind is Kind.ATOM}
        return len(atoms) > 1 or any(item.is_mark for item in self.items)

    def accept(self, translation: typing.Any) -> bool:
        """Takes a Translation; returns False if a placeholder is missing."""
        # The model may know the character.
        text = translation.text.replace(ATOM, "")
        num_atoms = self.text.count(ATOM)
        if num_atoms:
            stand_in = rf"(?<!{LETTER}){self.stand_in}(?!{LETTER})"
            # The sentence's own "Tom" may be the one that was copied.
            is_clear = not re.search(stand_in, self.text)
            text, count = re.subn(stand_in, ATOM, text)
            if not is_clear or count != num_atoms:
                return False
        self.links = translation.alignment
        self.log_probs = translation.word_log_probs
        if text != self.text:
            self.translation = text
        return True

    def remove_atoms(self) -> None:
        """Makes placeholders marks, for which the model gets no word."""
        for item in self.items:
            if item.kind is Kind.ATOM:
                item.make_mark(Kind.OBJECT)
        _separate_objects(self.items)
        self.text = join_texts(self.items)

    def split(self) -> "Sequence[Segment]":
        """Splits it in two; returns both, or () if it is one character."""
        position = _middle_boundary(self.text)
        if position is None:
            return ()
        edges = itertools.pairwise((0, position, len(self.text)))
        spans = [_strip(self.text, *span) for span in edges]
        self.parts = cut_items(self.items, spans)
        for half in self.parts.segments:
            half.stand_in = self.stand_in
        return self.parts.segments


class SplitFlow(typing.NamedTuple):
    """Sentences of a flow, and the items between them, which stay the same.

    Attributes:
        gaps: those before the first Segment, between the first and the second,
            and so on; one more than there are Segments.
        segments: the sentences.
    """

    gaps: list[list[Item]]
    segments: list[Segment]

    def flatten(self) -> "SplitFlow":
        """Returns a SplitFlow with the parts of Segments in their place."""
        gaps = [[*self.gaps[0]]]
        segments: list[Segment] = []
        for segment, gap in zip(self.segments, self.gaps[1:]):
            if segment.parts is None:
                segments.append(segment)
                gaps.append([])
            else:
                inner = segment.parts.flatten()
                gaps[-1] += inner.gaps[0]
                gaps += inner.gaps[1:]
                segments += inner.segments
            gaps[-1] += gap
        return SplitFlow(gaps, segments)


def split_flow(items: list[Item], language: str) -> SplitFlow:
    """Returns the SplitFlow of the items of a flow."""
    items = _merge_atoms(items)
    _separate_objects(items)
    text = join_texts(items)
    if not text.isascii():
        _close_lines(items, text)
        text = join_texts(items)
    spans, start = [], 0
    for end in _sentence_ends(text, language):
        if any(map(str.isalpha, text[start:end])):
            spans.append(_strip(text, start, end))
        start = end
    return cut_items(items, spans)


def _separate_objects(items):
    """Makes the text of OBJECTs a blank in "go<img>on", not in "go <img>on"."""
    if Kind.OBJECT not in [item.kind for item in items]:
        return
    objects, previous = [], ""
    for item in items:
        if item.kind is Kind.OBJECT:
            item.text = ""
            objects.append(item)
        elif item.text:
            if objects and _need_space(previous, item.text):
                objects[0].text = " "
            objects, previous = [], item.text[-1]


def _need_space(before, after):
    """Whether words are written with a space: "a" and "b", not "a" and ","."""
    if _UNSPACED.match(before) and _UNSPACED.match(after):
        return False
    return _BEFORE_SPACE.match(before) and _AFTER_SPACE.match(after)


def _merge_atoms(items):
    """Makes adjacent placeholders, such as "%d%%", one: models copy words.

    Placeholders within words, as in "%sMB", become marks. Returns the items.
    """
    if Kind.ATOM not in [item.kind for item in items]:
        return items
    text = join_texts(items)
    merged, offset = [], 0
    for kind, group in itertools.groupby(items, lambda item: item.kind):
        group = [*group]
        end = offset + len(join_texts(group))
        if kind is Kind.ATOM:
            if len(group) > 1:
                raws = [(item.source_raw, item.raw) for item in group]
                source_raw, raw = map("".join, zip(*raws))
                group = [MovedItem(source_raw, kind, raw, ATOM)]
            follows_word = offset and _ATTACHED.match(text, offset - 1)
            if follows_word or _LETTER.match(text, end):
                group[0].make_mark(Kind.VOID)
        merged += group
        offset = end
    return merged


def _close_lines(items, text):
    """Removes spaces of line ends in scripts without spaces.

    `text` is that of the items: "\u4f60 \u597d", if the document has a line
    end in place of the blank, becomes "\u4f60\u597d".
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


def _sentence_ends(text, language):
    """Yields the offset of the end of each sentence."""
    start = 0
    while start < len(text):
        # sentencex takes seconds for 50,000 characters of "a.a.a.".
        end = start + _MAX_SENTENCE_CHARACTERS
        sentences = sentencex.segment(language, text[start:end])
        if end < len(text) and len(sentences) > 1:
            # The last one may continue after the window.
            sentences.pop()
        for sentence in sentences:
            start += len(sentence)
            closers = _CLOSERS.match(text, start)
            yield closers.end() if closers else start


def cut_items(items: list[Item], spans: Sequence[tuple[int, int]]) -> SplitFlow:
    """Returns the SplitFlow whose Segments have the text at `spans`.

    `spans` are pairs (start, end), in order, of offsets of the items' text.
    Tags at either end of a Segment are in the gap beside it. Items whose raw
    differs from their text, such as entities, are not cut: they are where their
    text begins.
    """
    if not spans:
        return SplitFlow([items], [])
    edges = [*itertools.chain.from_iterable(spans), math.inf]
    # Group 0 is before the first edge, 1 is the first Segment, 2 is the gap
    # between the first and the second Segment, and so on.
    groups: list[list[Item]] = [[] for _ in edges]
    for number, item in _cut_texts(items, edges):
        if number % 2 and not (item.text or groups[number]):
            # A tag before the text of a Segment.
            number -= 1
        groups[number].append(item)
    return SplitFlow(groups[::2], [*map(Segment, groups[1::2])])


def _cut_texts(items, edges):
    """Yields (number, item) of items that are cut at edges.

    `number` is that of the edges at or before the beginning of the item.
    """
    offset = 0
    for item in items:
        text = item.text
        end = offset + len(text)
        first = bisect.bisect(edges, offset)
        if edges[first] >= end or item.raw != text:
            yield first, item
        else:
            inner = edges[first : bisect.bisect_left(edges, end)]
            start = 0
            for number, edge in enumerate([*inner, end], first):
                part = text[start : edge - offset]
                # Sentences without a space between them share an edge.
                if part:
                    yield number, Item(item.kind, part, part)
                start = edge - offset
        offset = end


def _strip(text, start, end):
    """Returns the span of a part of the text without blanks at its ends."""
    found = text[start:end]
    start += len(found) - len(found.lstrip())
    return start, start + len(found.strip())


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
