"""Cuts HTML and XML into tags, text, comments and the rest.

The document is scanned as the HTML standard says, by a scanner whose time
grows with the length of the document alone, whatever its errors are. That
of the standard library has no end positions, and needs minutes for a few
hundred thousand "<!--" in Python 3.11.
"""

import re
import sys
import typing
from collections.abc import Iterator
from xml.parsers import expat

from export.common.errors import InputError
from export.documents.elements import NO_END_TAGS, RAW_TEXT, RUBY_TEXT
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
CDATA = "<![CDATA[", "]]>"
_XML_DECLARATIONS = (
    ("<!--", re.compile("-->")),
    (CDATA[0], re.compile(re.escape(CDATA[1]))),
    ("<?", re.compile(r"\?>")),
)
_ATTRIBUTE = re.compile(
    r"([^\s=/]++)(?:\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s\"']\S*+))?+"
)
_RUBY_TEXT_END = re.compile(
    rf"</?(?:{'|'.join(sorted(RUBY_TEXT))}|rb|ruby)(?=[\s/>])", re.IGNORECASE
)


class Token(typing.NamedTuple):
    """A tag, text, or something else.

    Attributes:
        raw: its characters.
        kind: "text", "start", "end", "empty" (a tag of an element without
            content), "comment" (or another part without effect), or "data".
        name: of a tag, in lower case unless the document is XML.
    """

    raw: str
    kind: str
    name: str = ""

    def read_attributes(self) -> dict[str, str]:
        """Returns the attributes of a tag, names in lower case."""
        attributes = _TAG.match(self.raw)["attributes"]  # type: ignore[index]
        return {
            name.lower(): value.strip("\"'")
            for name, value in reversed(_ATTRIBUTE.findall(attributes))
        }


def scan(text: str, start: int, is_xml: bool) -> Iterator[Token]:
    """Yields the Tokens of a document."""
    position = text_start = start
    while (position := text.find("<", position)) >= 0:
        token = _read_token(text, position, is_xml)
        if token is None:
            # No tag: "<" is text.
            position += 1
            continue
        if text_start < position:
            yield Token(text[text_start:position], "text")
        yield token
        position += len(token.raw)
        if token.kind == "start" and not is_xml:
            end = _raw_text_end(text, position, token.name)
            if position < end:
                yield Token(text[position:end], "data")
            position = end
        text_start = position
    if text_start < len(text):
        yield Token(text[text_start:], "text")


def _raw_text_end(text, start, name):
    """Returns the end of the content that an element of HTML has no tags in."""
    if name in RUBY_TEXT:
        # Its end tag is often omitted.
        found = _RUBY_TEXT_END.search(text, start)
        return found.start() if found else start
    if name not in RAW_TEXT:
        return start
    end_tag = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    found = end_tag.search(text, start)
    return found.start() if found else len(text)


def _read_token(text, start, is_xml):
    """Returns the Token that begins with a "<"; None if that is text.

    One without an end takes the rest of the document, as in browsers.
    """
    if not _TAG_START.match(text, start):
        template = None if is_xml else SERVER_TAG.match(text, start)
        if template:
            return Token(template[0], "text")
        for beginning, end in _XML_DECLARATIONS if is_xml else _DECLARATIONS:
            if text.startswith(beginning, start):
                # In HTML "<!-->" is a comment.
                size = len(beginning) if is_xml else 2
                found = end.search(text, start + size)
                kind = "data" if beginning == CDATA[0] else "comment"
                return Token(text[start : found.end() if found else None], kind)
        return None
    match = _TAG.match(text, start)
    if match is None:
        return Token(text[start:], "data")
    # Interned, since most tags recur.
    raw = sys.intern(match[0])
    name, attributes = match["name"], match["attributes"]
    if not is_xml:
        name = name.lower()
    if raw[1] == "/":
        return Token(raw, "end", name)
    is_empty = name in NO_END_TAGS if not is_xml else False
    if attributes.endswith("/"):
        # The slash may belong to a value.
        values = _UNQUOTED.finditer(attributes)
        is_empty |= all(each.end() < len(attributes) for each in values)
    kind = "empty" if is_empty else "start"
    return Token(raw, kind, name)


def validate_xml(text: str) -> int:
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
