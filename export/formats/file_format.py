"""What the modules of formats return: texts to translate, and their place."""

import dataclasses
import html.entities
import re
import typing
from collections.abc import Callable, Sequence

ENCODINGS = (
    *("utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5", "euc-jp", "euc-kr"),
    *("shift_jis", "koi8-r", "koi8-u", "tis-620", "mac-roman"),
    *("cp437", "cp850", "cp852", "cp866", "cp932", "cp936", "cp949", "cp950"),
    *(f"cp125{number}" for number in range(9)),
    *(f"iso-8859-{number}" for number in (*range(1, 12), 13, 14, 15, 16)),
)
_ENTITY = re.compile(r"&(#\d{1,7};|#[xX][\da-fA-F]{1,6};|[A-Za-z]\w{1,31};)")


class Segment(typing.NamedTuple):
    """A text to translate.

    Attributes:
        text: plain text of one or more sentences, or a fragment of markup: one
            element with its content.
        markup: "text", "html" or "xml", the format of `text` in
            `Translator.translate_document`.
    """

    text: str
    markup: str = "text"


def value_segment(text: str) -> Segment:
    """Returns the Segment of a value that programs show, as text or as HTML.

    It is HTML if it has entities, such as "&amp;"; lines remain lines.
    """
    names = [match[1] for match in _ENTITY.finditer(text)]
    is_html = "\n" not in text and any(
        name.startswith("#") or name in html.entities.html5 for name in names
    )
    return Segment(text, "html" if is_html else "text")


class OpenFile(typing.NamedTuple):
    """A file whose texts can be replaced.

    Attributes:
        segments: the texts to translate, in reading order.
        write: function of the translation of each Segment that returns the
            bytes of the translated file. With the texts themselves it returns
            the bytes that were read, or for a zip the same members.
    """

    segments: list[Segment]
    write: Callable[[Sequence[str]], bytes]


@dataclasses.dataclass(frozen=True)
class FileOptions:
    """Options of reading files.

    Attributes:
        columns: numbers from 1, or names in the first line, of the columns of a
            table to translate; () for all.
        all_units: whether to translate again what a catalog or an XLIFF file
            has a translation of.
        source_language: code of the file's language, None if unknown.
        target_language: code of the translation's, for files that state it.
        encoding: that of text, one of ENCODINGS; None for UTF-16 if the file
            begins with its mark, or else UTF-8.
    """

    columns: tuple[str, ...] = ()
    all_units: bool = False
    source_language: str | None = None
    target_language: str | None = None
    encoding: str | None = None
