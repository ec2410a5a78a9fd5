"""What the modules of formats return: texts to translate, and their place."""

import dataclasses
import typing
from collections.abc import Callable, Sequence


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
    """

    columns: tuple[str, ...] = ()
    all_units: bool = False
    source_language: str | None = None
    target_language: str | None = None
