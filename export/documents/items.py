"""Items: text, tags and placeholders, the parts that a flow consists of."""

import enum
import html
import re
import sys
import typing
from collections.abc import Iterable, Iterator

from export.documents.patterns import DIRECTION, EMOJI, INVISIBLE

# Stands for a placeholder in the text of a flow.
ATOM = "\ufffc"
# How tags begin; those of HTML within XML are escaped.
TAG_STARTS = "<", "&lt;"

_REFERENCE = r"&(?:\#\d+|\#[xX][\da-fA-F]+|[a-zA-Z][a-zA-Z\d]*(?![\w@]));?"
_XML_ENTITIES = ("&amp;", "&lt;", "&gt;", "&quot;", "&apos;")


class Kind(enum.Enum):
    """What an item of a flow is."""

    TEXT = enum.auto()
    SPACE = enum.auto()  # Other than one blank, such as "\n  " or "&nbsp;".
    ATOM = enum.auto()  # A placeholder, for which the model gets a word.
    BREAK = enum.auto()  # <br>, before it is decided whether a sentence ends.
    VOID = enum.auto()  # A mark within a word: <wbr>, a comment, U+200E.
    # A mark that separates words: <img>, emoji, or a placeholder that the
    # model does not copy. Between words without a space its text is a blank.
    OBJECT = enum.auto()
    OPEN = enum.auto()  # A start tag, or the first part of a placeholder pair.
    CLOSE = enum.auto()


# Kinds that the model does not see.
_MARKS = (Kind.VOID, Kind.OBJECT, Kind.OPEN, Kind.CLOSE)


class Item:
    """A part of a flow.

    An item is changed until its flow is split into sentences: `markup` decides
    what breaks and placeholders are, `flow` which spaces the model gets.

    Attributes:
        kind: what it is.
        raw: its characters in the document, "&eacute;".
        text: the characters that they mean, "\u00e9"; "" for most marks.
        element: of OPEN and CLOSE, an object that both tags have in common.
    """

    __slots__ = ("kind", "raw", "text", "element")

    def __init__(
        self, kind: Kind, raw: str, text: str = "", element: object = None
    ):
        self.kind, self.raw, self.text = kind, raw, text
        self.element = element

    @property
    def is_mark(self) -> bool:
        """Whether it is placed beside or around words, as tags are."""
        return self.kind in _MARKS

    @property
    def source_raw(self) -> str:
        """Its characters in a sentence that the translation does not change."""
        return self.raw

    def make_mark(self, kind: Kind) -> None:
        """Makes a placeholder a mark of this kind: the model gets no word."""
        self.kind, self.text = kind, ""


class MovedItem(Item):
    """An item whose characters a translation has at another place.

    The address in "<b>see https://a.b/</b>c" becomes an item with the `raw`
    "https://a.b/c" and the `source_raw` "". Items with the `raw` "" follow: one
    with the `source_raw` "https://a.b/", the tag, and one with "c". So a
    translated sentence has "https://a.b/c</b>", an unchanged one what it had.
    """

    __slots__ = ("source_raw",)
    source_raw: str

    def __init__(self, source_raw: str, *arguments: typing.Any):
        super().__init__(*arguments)
        self.source_raw = source_raw


def join_texts(items: Iterable[Item]) -> str:
    """Returns the text that items mean."""
    # Not a generator, which takes longer for so few.
    return "".join([item.text for item in items])


def join_source_raws(items: Iterable[Item]) -> str:
    """Returns the characters of items in an unchanged sentence."""
    return "".join([item.source_raw for item in items])


# Parts of a text that are items of their own, by the groups of the pattern.
_MEANINGS = {
    "space": (Kind.SPACE, " "),
    "emoji": (Kind.OBJECT, ""),
    "direction": (Kind.VOID, ""),
    "invisible": (Kind.TEXT, ""),
    "atom": (Kind.ATOM, ATOM),
}
_TEXT_SPECIAL = re.compile(
    rf"(?P<space>(?:[^\S ]| \s)\s*)|(?P<emoji>{EMOJI})"
    rf"|(?P<direction>[{DIRECTION}])|(?P<invisible>[{INVISIBLE}])|(?P<atom>{ATOM})"
)
_MARKUP_SPECIAL = re.compile(rf"{_TEXT_SPECIAL.pattern}|{_REFERENCE}")


def text_items(raw: str, document_format: str = "text") -> Iterator[Item]:
    """Yields the items of a text without tags."""
    is_text = document_format == "text"
    special = _TEXT_SPECIAL if is_text else _MARKUP_SPECIAL
    start = 0
    for match in special.finditer(raw):
        # The same few fill documents, and share their memory.
        found = sys.intern(match[0])
        if match.lastgroup:
            kind, text = _MEANINGS[match.lastgroup]
        elif meaning := _read_reference(found, document_format):
            kind, text = meaning
        else:
            continue
        if start < match.start():
            between = raw[start : match.start()]
            yield Item(Kind.TEXT, between, between)
        yield Item(kind, found, text)
        start = match.end()
    if start < len(raw):
        yield Item(Kind.TEXT, raw[start:], raw[start:])


def _read_reference(raw, document_format):
    """Returns a reference's kind and text: "&gt;" is TEXT, ">".

    Returns None for other text, such as the "&T" of "AT&T".
    """
    is_known = document_format == "html" or (
        raw.startswith("&#") or raw in _XML_ENTITIES
    )
    text = html.unescape(raw) if is_known else raw
    if text.isspace():
        return Kind.SPACE, " "
    if ATOM in text or (text == raw and raw.endswith(";")):
        # The entity of a DTD, or an error of the author.
        return Kind.ATOM, ATOM
    if text == raw:
        return None
    if re.fullmatch(f"[{DIRECTION}]", text):
        return Kind.VOID, ""
    return Kind.TEXT, re.sub(f"[{INVISIBLE}]", "", text)
