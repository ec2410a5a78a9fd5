"""What the modules of formats return: texts to translate, and their place."""

import dataclasses
import typing
from collections.abc import Callable, Sequence

ENCODINGS = (
    *("utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5", "euc-jp", "euc-kr"),
    *("shift_jis", "koi8-r", "koi8-u", "tis-620", "mac-roman"),
    *("cp437", "cp850", "cp852", "cp866", "cp932", "cp936", "cp949", "cp950"),
    *(f"cp125{number}" for number in range(9)),
    *(f"iso-8859-{number}" for number in (*range(1, 12), 13, 14, 15, 16)),
)


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
