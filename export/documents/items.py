"""Items: text, tags and placeholders, the parts that a flow consists of."""

import enum
import html
import re
import sys

from export.documents.patterns import DIRECTION, EMOJI, INVISIBLE

# Stands for a placeholder in the text of a flow.
ATOM = "\ufffc"
# How tags begin; those of HTML within XML are escaped.
TAG_STARTS = "<", "&lt;"

_REFERENCE = r"&(?:\#\d+|\#[xX][\da-fA-F]+|[a-zA-Z][a-zA-Z\d]*(?![\w@]));?"
# White space other than one blank, and so on; also what would be taken for a
# placeholder.
_TEXT_SPECIAL = re.compile(
    rf"(?:[^\S ]| \s)\s*|(?P<object>{EMOJI})|(?P<void>[{DIRECTION}])"
    rf"|(?P<invisible>[{INVISIBLE}])|{ATOM}"
)
_MARKUP_SPECIAL = re.compile(rf"{_TEXT_SPECIAL.pattern}|{_REFERENCE}")
_XML_ENTITIES = ("&amp;", "&lt;", "&gt;", "&quot;", "&apos;")


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

    @property
    def origin(self):
        """Its characters in the document if that sentence is unchanged."""
        return self.raw


class MovedItem(Item):
    """An item whose characters are elsewhere in an unchanged sentence."""

    __slots__ = ("origin",)

    def __init__(self, origin, *arguments):
        super().__init__(*arguments)
        self.origin = origin


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
