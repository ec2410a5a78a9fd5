"""HTML and XML: tags, flows of text with inline tags, and the rest.

The document is scanned as the HTML standard says, by a scanner whose time
grows with the length of the document alone, whatever its errors are. That
of the standard library has no end positions, and needs minutes for a few
hundred thousand "<!--" in Python 3.11.
"""

import collections
import re
import sys
import typing
from xml.parsers import expat

from export.common.errors import InputError
from export.documents.flow import ATOM, Item, Kind, text_items
from export.documents.placeholders import SERVER_TAG

# Quotes matter after "=" only. Possessive, and so linear.
_TAG = re.compile(
    r"</?(?P<name>[^\s/>]++)"
    r"(?P<attributes>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+)>"
)
_TAG_START = re.compile(r"</?[a-zA-Z_:\u0080-\U0010ffff]")
_UNQUOTED = re.compile(r"=\s*+(?:[^\s\"'=]*+=\s*+)*+[^\s\"'=]*+")
# Beginnings and ends of parts that are neither text nor tags.
_DECLARATIONS = (
    ("<!--", re.compile(r"--!?>")),
    ("<?php", re.compile(r"\?>")),
    ("<?=", re.compile(r"\?>")),
    ("<!", re.compile(">")),
    ("<?", re.compile(">")),
    # An end tag without a name.
    ("</", re.compile(">")),
)
_CDATA = "<![CDATA["
_XML_DECLARATIONS = (
    ("<!--", re.compile("-->")),
    (_CDATA, re.compile(r"\]\]>")),
    ("<?", re.compile(r"\?>")),
)
_ATTRIBUTE = re.compile(
    r"([^\s=/]++)(?:\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s\"']\S*+))?+"
)
_WORD = re.compile(r"\w")


def _names(text):
    return frozenset(text.split())


# Without end tags.
_EMPTY = _names(
    "area base br col embed hr img input link meta param source track wbr"
)
# Elements that end a sentence.
_BLOCKS = _names(
    "address article aside base blockquote body button caption center col "
    "colgroup dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe legend li link main menu meta nav noembed noframes noscript ol "
    "optgroup option p param plaintext pre script search section select "
    "source style summary table tbody td template textarea tfoot th thead "
    "title tr track ul xmp"
)
# Elements whose content has no tags.
_RAW = _names("iframe noembed noframes script style textarea xmp")
# Elements that stand for words, and <x> and <ph> of XLIFF.
_WORDS = _names("code kbd samp var math ph x")
# Elements whose content is not translated.
_OPAQUE = _RAW | _WORDS | _names("pre svg object audio video canvas bpt ept it")


class _Token(typing.NamedTuple):
    """A tag, text, or something else.

    Attributes:
        raw: its characters.
        kind: "text", "start", "end", "empty" (a tag of an element without
            content), "comment" (or another part without effect), or "data".
        name: of a tag, in lower case unless the document is XML.
        is_kept: whether the tag says that its element is not translated.
    """

    raw: str
    kind: str
    name: str = ""
    is_kept: bool = False


def read_markup(text, document_format):
    """Yields str, which stay as they are, and flows.

    A flow is a list of Item, whose kinds are final after the last part. Raises
    InputError for XML that is not well-formed.
    """
    is_xml = document_format == "xml"
    start = _validate_xml(text) if is_xml else 0
    yield text[:start]
    builder = _Builder()
    tokens = _find_inline(text, start, is_xml)
    for token, is_inline in tokens:
        raw = token.raw
        is_opaque = token.is_kept or token.name in _OPAQUE
        if is_opaque and token.kind == "start":
            raw = "".join([raw, *_element_rest(tokens, token.name)])
        if not is_inline:
            yield from builder.end_flow(raw)
        elif token.kind == "text":
            builder.items += text_items(raw, document_format)
        elif token.kind == "comment":
            builder.add(Kind.VOID, raw)
        elif token.name == "br" and (token.kind == "empty" or not is_xml):
            builder.add(Kind.BREAK, raw)
        elif is_opaque or token.kind in ("empty", "data"):
            is_word = token.is_kept or token.name in _WORDS or is_xml
            builder.add(Kind.ATOM if is_word else Kind.VOID, raw)
        else:
            builder.add_tag(token)
    yield from builder.end_flow("")
    builder.drop_unclosed()


class _Builder:
    """Collects flows, and pairs start tags with end tags."""

    def __init__(self):
        self.items = []
        self._unclosed = []
        self._counts = collections.Counter()

    def add(self, kind, raw):
        text = {Kind.ATOM: ATOM, Kind.BREAK: " "}.get(kind, "")
        self.items.append(Item(kind, raw, text))

    def add_tag(self, token):
        """Adds a tag; one without a partner becomes VOID."""
        item = Item(Kind.VOID, token.raw)
        self.items.append(item)
        if token.kind == "start":
            item.kind, item.element = Kind.OPEN, object()
            self._unclosed.append((token.name, item))
            self._counts[token.name] += 1
        elif self._counts[token.name]:
            name, start = self._unclosed.pop()
            while name != token.name:
                start.kind = Kind.VOID
                self._counts[name] -= 1
                name, start = self._unclosed.pop()
            self._counts[name] -= 1
            item.kind, item.element = Kind.CLOSE, start.element

    def drop_unclosed(self):
        """Makes tags without a partner VOID."""
        for _, start in self._unclosed:
            start.kind = Kind.VOID

    def end_flow(self, raw):
        """Yields the flow, or several because of line breaks, and `raw`."""
        items, self.items, flow = self.items, [], []
        for item in _merge_blank(_decide_breaks(items)):
            if item.kind is Kind.BREAK:
                yield _merge_spaces(flow)
                yield item.raw
                flow = []
            else:
                flow.append(item)
        yield _merge_spaces(flow)
        yield raw


def _decide_breaks(items):
    """Makes <br> before a small letter white space: the sentence continues.

    Tags that do not stand between spaces, as words do, become VOID.
    """
    if not any([item.kind in (Kind.BREAK, Kind.ATOM) for item in items]):
        return items
    # The characters after an item, next to it and the next visible one.
    following = visible = ""
    attached = set()
    for index, item in reversed([*enumerate(items)]):
        if item.kind is Kind.BREAK:
            if visible.islower():
                item.kind = Kind.SPACE
            visible = "\n"
        elif item.text.strip():
            visible = item.text.lstrip()[0]
        if _WORD.match(following):
            attached.add(index)
        following = item.text[:1] or following
    previous = ""
    for index, item in enumerate(items):
        is_tag = item.kind is Kind.ATOM and item.raw[0] == "<"
        if is_tag and (index in attached or _WORD.match(previous)):
            item.kind, item.text = Kind.VOID, ""
        previous = item.text[-1:] or previous
    return items


def _merge_blank(items):
    """Makes one item of each element without text, tags included.

    So it does of the marks of footnotes, <sup> without letters. Returns items.
    """
    starts, ends = {}, {}
    num_visible = num_letters = 0
    for index, item in enumerate(items):
        if item.kind is Kind.OPEN:
            starts[item.element] = (index, num_visible, num_letters)
        elif item.kind is Kind.CLOSE and item.element in starts:
            start, visible_before, letters_before = starts[item.element]
            is_note = items[start].raw[:4].lower() == "<sup"
            if num_visible == visible_before or (
                is_note and num_letters == letters_before
            ):
                ends[start] = index + 1
        elif item.kind in (Kind.BREAK, Kind.ATOM):
            num_letters += 1
        if item.kind is Kind.BREAK or item.text.strip():
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
        kind, text = (Kind.SPACE, " ") if is_space else (Kind.VOID, "")
        merged.append(Item(kind, raw, text))
    return merged


def _merge_spaces(items):
    """Returns items without adjacent ones of white space."""
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


def _scan(text, start, is_xml):
    """Yields the _Tokens of a document."""
    position = text_start = start
    while (position := text.find("<", position)) >= 0:
        token = _read_token(text, position, is_xml)
        if token is None:
            # No tag: "<" is text.
            position += 1
            continue
        if text_start < position:
            yield _Token(text[text_start:position], "text")
        yield token
        position += len(token.raw)
        if token.kind == "start" and token.name in _RAW and not is_xml:
            end_tag = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE)
            found = end_tag.search(text, position)
            end = found.start() if found else len(text)
            yield _Token(text[position:end], "data")
            position = end
        text_start = position
    if text_start < len(text):
        yield _Token(text[text_start:], "text")


def _read_token(text, start, is_xml):
    """Returns the _Token that begins with a "<"; None if that is text.

    One without an end takes the rest of the document, as in browsers.
    """
    if not _TAG_START.match(text, start):
        template = None if is_xml else SERVER_TAG.match(text, start)
        if template:
            return _Token(template[0], "text")
        for beginning, end in _XML_DECLARATIONS if is_xml else _DECLARATIONS:
            if text.startswith(beginning, start):
                # In HTML "<!-->" is a comment.
                size = len(beginning) if is_xml else 2
                found = end.search(text, start + size)
                kind = "data" if beginning == _CDATA else "comment"
                return _Token(
                    text[start : found.end() if found else None], kind
                )
        return None
    match = _TAG.match(text, start)
    if match is None:
        return _Token(text[start:], "data")
    # Interned, since most tags recur.
    raw = sys.intern(match[0])
    name, attributes = match["name"], match["attributes"]
    if not is_xml:
        name = name.lower()
    if raw[1] == "/":
        return _Token(raw, "end", name)
    is_empty = name in _EMPTY if not is_xml else False
    if attributes.endswith("/"):
        # The slash may belong to a value.
        values = _UNQUOTED.finditer(attributes)
        is_empty |= all(each.end() < len(attributes) for each in values)
    kind = "empty" if is_empty else "start"
    return _Token(raw, kind, name, _is_kept(attributes))


def _is_kept(attributes):
    """Whether the attributes of a tag say that it is not translated."""
    attributes = attributes.lower()
    # Most have none of it.
    if "translate" not in attributes:
        return False
    values = {
        name: value.strip("\"'").split()
        for name, value in reversed(_ATTRIBUTE.findall(attributes))
    }
    is_class = "notranslate" in values.get("class", ())
    return is_class or values.get("translate") == ["no"]


def _element_rest(tokens, name):
    """Yields what follows a start tag up to its end tag or the end."""
    depth = 1
    for token, _ in tokens:
        yield token.raw
        if token.name == name:
            depth += (token.kind == "start") - (token.kind == "end")
            if not depth:
                return


def _find_inline(text, start, is_xml):
    """Yields the _Tokens of a document, and whether each is within a flow.

    An XML element is inline if its parent has text besides elements.
    """
    if not is_xml:
        for token in _scan(text, start, is_xml):
            yield token, token.name not in _BLOCKS
        return
    # The root element's parent is the first.
    parents, open_elements, has_text = [], [0], [False]
    for token in _scan(text, start, is_xml):
        if token.kind == "end":
            open_elements.pop()
        parents.append(open_elements[-1])
        if token.kind == "start":
            open_elements.append(len(has_text))
            has_text.append(False)
        elif token.kind == "text" and not token.raw.isspace():
            has_text[open_elements[-1]] = True
    # Scanned again, since all tokens take much memory.
    for token, parent in zip(_scan(text, start, is_xml), parents):
        yield token, has_text[parent] or token.kind in ("text", "comment")


def _validate_xml(text):
    """Returns the end of the document type declaration, or 0.

    Raises InputError unless the document is well-formed. Entities are not
    expanded, and nothing else is read.
    """
    content = text.encode("utf-8")
    parser = expat.ParserCreate("utf-8")
    ends = [0]
    parser.EndDoctypeDeclHandler = lambda: ends.append(
        parser.CurrentByteIndex + 1
    )
    # With it, internal entities stay as they are.
    parser.DefaultHandler = lambda data: None
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise InputError(
            f"The document is not well-formed XML: {error}. Correct it, or "
            "translate it with --format=html."
        ) from None
    return len(content[: ends[-1]].decode("utf-8"))
