"""HTML and XML: flows of text with inline tags, and the rest."""

import collections
import html
import itertools
import re
from collections.abc import Collection, Iterator

from export.documents.elements import Role
from export.documents.items import (
    ATOM,
    TAG_STARTS,
    Item,
    Kind,
    join_texts,
    text_items,
)
from export.documents.mark_tree import find_crossing
from export.documents.plain_text import MIN_WRAP_WIDTH, is_full
from export.documents.roles import assign_roles
from export.documents.scanner import CDATA, validate_xml

_WORD = re.compile(r"\w")
# The characters of XML.
_CHARACTERS = re.compile(r"(&(?:lt|gt|amp|quot|apos|#\w+);)|(.)", re.DOTALL)
_LINK = re.compile(r"(?:<|&lt;)/?a(?:[\s>]|&gt;)", re.IGNORECASE)
_KINDS = {
    Role.HIDDEN: (Kind.VOID, ""),
    Role.OBJECT: (Kind.OBJECT, ""),
    Role.WORDS: (Kind.ATOM, ATOM),
    Role.BREAK: (Kind.BREAK, " "),
}
_NOTE = re.compile("(?:<|&lt;)sup", re.IGNORECASE)
# Attributes by which the halves of XLIFF and TMX name each other.
_HALF_KEYS = ("rid", "startref", "i", "id")
# Fewer lines may look wrapped by chance.
_MIN_WRAPPED_LINES = 3


def read_markup(
    text: str, document_format: str, keep_elements: Collection[str] = ()
) -> Iterator[str | list[Item]]:
    """Yields str, which stay as they are, and flows.

    A flow is a list of Item, whose kinds are final after the last part. For
    `keep_elements` see `assign_roles`. Raises InputError for XML that is not
    well-formed.
    """
    is_xml = document_format == "xml"
    start = validate_xml(text) if is_xml else 0
    yield text[:start]
    builder = _Builder()
    for token, role in assign_roles(text, start, is_xml, keep_elements):
        if role is Role.HTML:
            yield from _read_html(builder, token.raw, keep_elements)
        elif role is Role.INLINE and token.kind == "text":
            builder.items += text_items(token.raw, document_format)
        else:
            yield from builder.add_token(token, role, token.raw)
    yield from builder.end_flow("")
    builder.drop_unclosed()


def _read_html(builder, section, keep_elements):
    """Yields parts as `read_markup` does, of HTML that XML has as text."""
    is_section = section.startswith(CDATA[0])
    if is_section:
        yield from builder.end_flow(CDATA[0])
        characters = section[len(CDATA[0]) : -len(CDATA[1])]
    else:
        pairs = _CHARACTERS.findall(section)
        characters = [entity or other for entity, other in pairs]
    # For each character of the HTML its spelling in the document: "&lt;".
    remaining = iter(characters)
    text = "".join(
        [html.unescape(each) if each[1:] else each for each in characters]
    )
    for token, role in assign_roles(text, 0, False, keep_elements):
        if role is Role.INLINE and token.kind == "text":
            for item in text_items(token.raw, "html"):
                raws = [*itertools.islice(remaining, len(item.raw))]
                pairs = [(item.text, "".join(raws))]
                if item.text == item.raw != pairs[0][1]:
                    pairs = zip(item.raw, raws)
                builder.items += [
                    Item(item.kind, raw, text) for text, raw in pairs
                ]
        else:
            raw = "".join(itertools.islice(remaining, len(token.raw)))
            yield from builder.add_token(token, role, raw)
    if is_section:
        yield from builder.end_flow(CDATA[1])


class _Builder:
    """Collects flows, and pairs start tags with end tags.

    Pairs may cross, as <b> and <i> of "<b>x <i>y</b> z</i>" do.
    """

    def __init__(self):
        self.items = []
        # Items of start tags, by name.
        self._unclosed = collections.defaultdict(list)
        self._num_links = 0

    def add_token(self, token, role, raw):
        """Adds what is no text, `raw` in the document; yields parts."""
        if role is Role.INLINE:
            self.add_tag(raw, token.name, token.kind)
        elif role in (Role.BLOCK, Role.KEPT):
            yield from self.end_flow(raw)
        elif role in _KINDS:
            kind, text = _KINDS[role]
            self.items.append(Item(kind, raw, text))
        else:
            attributes = token.read_attributes()
            keys = [attributes.get(name) for name in _HALF_KEYS]
            key = next(filter(None, keys), "")
            kind = "start" if role is Role.FIRST_HALF else "end"
            # No name of an element has a blank.
            self.add_tag(raw, f" {key}", kind)

    def add_tag(self, raw, name, kind):
        """Adds a tag; one without a partner becomes VOID."""
        item = Item(Kind.VOID, raw)
        self.items.append(item)
        if kind == "start":
            item.kind, item.element = Kind.OPEN, object()
            self._unclosed[name].append(item)
            self._num_links += name == "a"
        elif kind == "end" and self._unclosed[name]:
            item.kind = Kind.CLOSE
            item.element = self._unclosed[name].pop().element

    def drop_unclosed(self):
        """Makes tags without a partner VOID."""
        for items in self._unclosed.values():
            for item in items:
                item.kind = Kind.VOID

    def end_flow(self, raw):
        """Yields the flow, or several because of line breaks, and `raw`."""
        items, self.items = self.items, []
        _join_wrapped(items)
        _detach_atoms(items)
        items = _merge_blank(items)
        if self._num_links > 1:
            items = _separate_links(items)
        self._num_links = 0
        for is_break, group in itertools.groupby(
            items, lambda item: item.kind is Kind.BREAK
        ):
            if is_break:
                yield "".join(item.raw for item in group)
            else:
                yield _merge_spaces(group)
        yield raw


def _join_wrapped(items):
    """Makes <br> white space if all lines are evidently wrapped prose.

    All lines but the last are as full as the widest, and one or more begin with
    a small letter. Poems, lists and addresses have other lines.
    """
    breaks = [item for item in items if item.kind is Kind.BREAK]
    if len(breaks) + 1 < _MIN_WRAPPED_LINES:
        return
    # No text of an item has a line end.
    texts = ["\n" if item.kind is Kind.BREAK else item.text for item in items]
    lines = [" ".join(line.split()) for line in "".join(texts).split("\n")]
    if not lines[-1]:
        lines.pop()
    widths = [*map(len, lines)]
    width = max(widths)
    if (
        width >= MIN_WRAP_WIDTH
        and len(lines) >= _MIN_WRAPPED_LINES
        and any(line[:1].islower() for line in lines[1:])
        and all(map(is_full, [width] * len(lines), widths, lines[1:]))
    ):
        for item in breaks[: len(lines) - 1]:
            item.kind = Kind.SPACE


def _detach_atoms(items):
    """Makes <code>x</code> and the like OBJECT within a word, as in "x86".

    As placeholders they need spaces beside them.
    """
    if Kind.ATOM not in [item.kind for item in items]:
        return
    text, end, previous = join_texts(items), 0, ""
    for item in items:
        end += len(item.text)
        is_tag = item.kind is Kind.ATOM and item.raw.startswith(TAG_STARTS)
        if is_tag and (_WORD.match(text, end) or _WORD.match(previous)):
            item.make_mark(Kind.OBJECT)
        previous = item.text[-1:] or previous


def _separate_links(items):
    """Yields items, and breaks or separators between links.

    Links are a list if all letters are in links: <a>Home</a> <a>News</a> are
    two texts. In a sentence, links without a space between them are two words.
    """
    is_link = [
        item.kind in (Kind.OPEN, Kind.CLOSE) and bool(_LINK.match(item.raw))
        for item in items
    ]
    depth, is_list = 0, True
    for item, is_tag in zip(items, is_link):
        if is_tag:
            depth += 1 if item.kind is Kind.OPEN else -1
        elif depth <= 0 and any(map(str.isalpha, item.text)):
            is_list = False
    follows_link = False
    for item, is_tag in zip(items, is_link):
        is_start = is_tag and item.kind is Kind.OPEN
        if is_start and (is_list or follows_link):
            yield Item(Kind.BREAK if is_list else Kind.OBJECT, "")
        yield item
        if is_tag:
            follows_link = not is_start
            if is_list and not is_start:
                yield Item(Kind.BREAK, "")
        elif item.text:
            follows_link = False


def _merge_blank(items):
    """Returns items in which "<i> </i>" and other blank elements are one.

    So are the marks of footnotes, <sup> without letters as in "<sup>1</sup>".
    """
    starts, ends = {}, {}
    crossing = find_crossing(items)
    num_visible = num_letters = 0
    for index, item in enumerate(items):
        if item.kind is Kind.OPEN:
            starts[item.element] = (index, num_visible, num_letters)
        elif item.kind is Kind.CLOSE and item.element in starts:
            start, visible_before, letters_before = starts[item.element]
            is_note = bool(_NOTE.match(items[start].raw))
            if num_visible == visible_before or (
                is_note and num_letters == letters_before
            ):
                ends[start] = index + 1
        elif item.kind in (Kind.BREAK, Kind.ATOM):
            num_letters += 1
        if (
            item.text.strip()
            or item.kind is Kind.BREAK
            or (crossing and item.element in crossing)
        ):
            num_visible += 1
            num_letters += any(map(str.isalpha, item.text))
    merged, index = [], 0
    while index < len(items):
        if index not in ends:
            merged.append(items[index])
            index += 1
            continue
        inside = items[index : ends[index]]
        index = ends[index]
        raw = "".join(item.raw for item in inside)
        is_space = any(
            item.kind is Kind.SPACE or item.text.isspace() for item in inside
        )
        is_seen = any(
            item.kind is Kind.OBJECT or item.text.strip() for item in inside
        )
        kind = Kind.OBJECT if is_seen else Kind.VOID
        item = Item(Kind.SPACE, raw, " ") if is_space else Item(kind, raw)
        merged.append(item)
    return merged


def _merge_spaces(items):
    """Returns items, of which adjacent ones of white space are one."""
    merged = []
    for item in items:
        before = merged[-1] if merged else None
        kinds = (before and before.kind, item.kind)
        if Kind.SPACE not in kinds:
            merged.append(item)
        elif kinds == (Kind.SPACE, Kind.SPACE):
            before.raw += item.raw
        elif kinds == (Kind.TEXT, Kind.SPACE) and before.raw.endswith(" "):
            before.raw = before.text = before.raw[:-1]
            item.raw = f" {item.raw}"
            if not before.raw:
                merged.pop()
            merged.append(item)
        elif kinds == (Kind.SPACE, Kind.TEXT) and item.raw.startswith(" "):
            before.raw += " "
            item.raw = item.text = item.raw[1:]
            if item.raw:
                merged.append(item)
        else:
            merged.append(item)
    return merged
