"""Finds the format of a file, and translates the file."""

import codecs
import importlib
import os
import pathlib
import re
import typing
from collections.abc import Callable, Iterable, Sequence

from export.common.errors import InputError
from export.documents.document import translate_documents
from export.formats.file_format import FileOptions, OpenFile, Segment
from export.formats.memory import Memory
from export.lines.file_formats import MARKUP, decode_document, detect_format


class Format(typing.NamedTuple):
    """A format of files.

    Attributes:
        endings: ends of its files' names, in small letters.
        module: module of export.formats with its function; "" for documents,
            which need none.
        function: name of a function of bytes and FileOptions that returns an
            OpenFile.
    """

    endings: tuple[str, ...]
    module: str = ""
    function: str = ""


def _office(name):
    return Format((f".{name}",), "office", "open_office")


FORMATS = {
    "text": Format((".txt", ".text")),
    "html": Format((".html", ".htm")),
    "xml": Format((".xml", ".xhtml", ".svg", ".rss", ".atom", ".dita")),
    "markdown": Format((".md", ".markdown"), "markdown_files", "open_markdown"),
    "csv": Format((".csv",), "tables", "open_csv"),
    "tsv": Format((".tsv", ".tab"), "tables", "open_tsv"),
    "json": Format((".json",), "data_files", "open_json"),
    "yaml": Format((".yaml", ".yml"), "data_files", "open_yaml"),
    "po": Format((".po", ".pot"), "catalogs", "open_po"),
    "properties": Format((".properties",), "catalogs", "open_properties"),
    "android": Format(("strings.xml",), "catalogs", "open_android"),
    "resx": Format((".resx",), "catalogs", "open_resx"),
    "ftl": Format((".ftl",), "catalogs", "open_ftl"),
    "xliff": Format((".xliff", ".xlf"), "xliff", "open_xliff"),
    "srt": Format((".srt",), "subtitles", "open_subtitles"),
    "vtt": Format((".vtt",), "subtitles", "open_subtitles"),
    "epub": Format((".epub",), "epub", "open_epub"),
    **{
        name: _office(name)
        for name in ("docx", "pptx", "xlsx", "odt", "odp", "ods")
    },
}
DEFAULT_OPTIONS = FileOptions()
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_ZIP_START = b"PK\x03\x04"
# A blank line, with the line ends around it.
_PARAGRAPH_END = re.compile(r"((?:\r?\n[ \t]*){2,})")
# The tag of a language, which holds for the document that it begins.
_TAG = ">>"


def find_format(
    path: str | os.PathLike[str],
    name: str | None = None,
    content: bytes | None = None,
) -> str:
    """Returns the name of a file's format, one of FORMATS.

    A `name` other than None and "auto" is returned. Raises InputError if there
    is no such format, or none for the ending, and if the `content` of text is
    unmistakably something else, such as JSON.
    """
    if name not in (None, "auto"):
        if name not in FORMATS:
            raise InputError(
                f"Expected {', '.join(FORMATS)} as the format, got {name}."
            )
        return str(name)
    base = pathlib.Path(path).name.lower()
    found = [
        (len(ending), each)
        for each, known in FORMATS.items()
        for ending in known.endings
        if base.endswith(ending)
    ]
    if not found:
        endings = " ".join(
            ending for each in FORMATS.values() for ending in each.endings
        )
        raise InputError(
            f"The format of {base!r} is unknown by its ending: name the format "
            f"with --format, or use one of {endings}."
        )
    # "strings.xml" before ".xml".
    best = max(found)[1]
    other = None
    if best == "text" and content is not None:
        # In other encodings nothing is unmistakable.
        other = detect_format(content.decode("utf-8", "replace"))
    if other is not None:
        raise InputError(
            f"The file is {other}; everything in it would be translated: "
            "name the format with --format, which is text if it is text."
        )
    return best


def open_file(
    content: bytes, format_name: str, options: FileOptions = DEFAULT_OPTIONS
) -> OpenFile:
    """Opens a file of a format of FORMATS; InputError if it is none."""
    encoding = options.encoding or _find_encoding(content)
    if encoding is None or content.startswith(_ZIP_START):
        return _open_utf8(content, format_name, options)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"The file is not {encoding}, {error.reason} at byte "
            f"{error.start + 1}: give another --encoding."
        ) from None
    file = _open_utf8(text.encode("utf-8"), format_name, options)

    def write(texts):
        output = file.write(texts).decode("utf-8")
        try:
            return output.encode(encoding)
        except UnicodeEncodeError as error:
            character = output[error.start]
            raise InputError(
                f"The translation has {character!r} (U+{ord(character):04X}), "
                f"which {encoding} lacks: convert the file to UTF-8 first."
            ) from None

    return file._replace(write=write)


def _find_encoding(content):
    """Returns the encoding that a mark at the beginning tells, or None."""
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            return encoding
    return None


def _open_utf8(content, format_name, options):
    found = FORMATS[format_name]
    if not found.module:
        return _open_document(decode_document(content), format_name)
    module = importlib.import_module(f"export.formats.{found.module}")
    return getattr(module, found.function)(content, options)


def _open_document(text, format_name):
    """Returns an OpenFile of the paragraphs of text, or of one document."""
    if format_name == "html" and "<" not in text:
        other = detect_format(text)
        if other and other not in MARKUP:
            raise InputError(
                f"The file is {other}, not HTML: give --format with its format."
            )
    parts = [text]
    if format_name == "text" and not text.startswith(_TAG):
        parts = _PARAGRAPH_END.split(text)
    indices = [i for i, part in enumerate(parts) if part.strip()]
    segments = [Segment(parts[index], format_name) for index in indices]

    def write(texts):
        output = [*parts]
        for index, translation in zip(indices, texts, strict=True):
            output[index] = translation
        return "".join(output).encode("utf-8")

    return OpenFile(segments, write)


def translate_segments(
    translator: typing.Any,
    segments: Sequence[Segment],
    on_progress: Callable[[int], object] | None = None,
    terms: typing.Any = None,
    keep_elements: Sequence[str] = (),
    memory: Memory | None = None,
) -> list[str]:
    """Translates Segments, each different one once; see `Translator`.

    Exact matches of a `memory` are taken as they are, and the others added.
    """
    find = Memory().find if memory is None else memory.find
    translations = {each: find(each) for each in segments}
    for markup in ("text", "html", "xml"):
        new = [
            each
            for each, translation in translations.items()
            if translation is None and each.markup == markup
        ]
        if not new:
            continue
        texts = [each.text for each in new]
        outputs = translate_documents(
            translator, texts, markup, on_progress, terms, keep_elements
        )
        translations |= zip(new, outputs)
    if memory is not None:
        for segment, translation in translations.items():
            memory.add(segment, typing.cast(str, translation))
    return [typing.cast(str, translations[each]) for each in segments]


def translate_file(
    translator: typing.Any,
    content: bytes,
    format_name: str,
    options: FileOptions = DEFAULT_OPTIONS,
    on_progress: Callable[[int], object] | None = None,
    terms: typing.Any = None,
    keep_elements: Sequence[str] = (),
    memory: Memory | None = None,
) -> bytes:
    """Translates the content of a file, of a format of FORMATS.

    `translator` is a Translator; for the last arguments see
    `translate_segments`. Raises InputError if the content is not of the format.
    """
    file = open_file(content, format_name, options)
    return file.write(
        translate_segments(
            translator,
            file.segments,
            on_progress,
            terms,
            keep_elements,
            memory,
        )
    )


class Place(typing.NamedTuple):
    """The place of a translation in the text of a file.

    Attributes:
        start: index of its first character.
        end: index after its last character.
        segment: Segment whose translation it gets.
        encode: function of the translation that returns the characters there.
        current: the translation that is there already, "" if there is none;
            None for the text of the segment.
    """

    start: int
    end: int
    segment: Segment
    encode: Callable[[str], str]
    current: str | None = None


def splice(
    text: str,
    places: Sequence[Place],
    edits: Iterable[tuple[int, int, str]] = (),
) -> OpenFile:
    """Returns the OpenFile of a text with Places, in UTF-8.

    Characters stay where the translation is the current one, as do those
    between the places. `edits` are further (start, end, characters).
    """

    def write(texts):
        changes = [*edits]
        for place, translation in zip(places, texts, strict=True):
            start, end, segment, encode, current = place
            if translation != (segment.text if current is None else current):
                changes.append((start, end, encode(translation)))
        parts, position = [], 0
        # Those of the same start stay in order.
        for start, end, new in sorted(changes, key=lambda change: change[0]):
            parts += text[position:start], new
            position = end
        return "".join([*parts, text[position:]]).encode("utf-8")

    return OpenFile([place.segment for place in places], write)
