"""Translation memories in TMX: exact matches of earlier translations."""

import io
import os
import pathlib
import re
from xml.parsers import expat
from xml.sax import saxutils

from export.common.errors import InputError
from export.common.storage import explain_read_errors, write_bytes
from export.formats.file_format import Segment
from export.translators.languages import base_code

# The property of units whose text is markup.
_MARKUP_TYPE = "x-markup"
# Characters that XML lacks.
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
<header creationtool="keras-translation" creationtoolversion="1" \
segtype="paragraph" o-tmf="none" adminlang="en" srclang={} \
datatype="unknown"/>
<body>
"""


class Memory:
    """Translations of Segments.

    Args:
        source_language: code of the language of Segments.
        target_language: code of the language of translations.
    """

    def __init__(
        self,
        source_language: str | None = None,
        target_language: str | None = None,
    ):
        self._languages = source_language, target_language
        self._units: dict[Segment, str] = {}

    def find(self, segment: Segment) -> str | None:
        """Returns the translation of a Segment, None without an exact match."""
        return self._units.get(_normalize(segment))

    def add(self, segment: Segment, translation: str) -> None:
        """Adds the translation of a Segment, or replaces it."""
        self._units[_normalize(segment)] = translation

    def read(self, path: str | os.PathLike[str]) -> None:
        """Adds the units of a TMX file, read in pieces.

        Units without both languages are skipped; a language of the memory has
        its regional variants too. Raises InputError if the file is no TMX.
        """
        self._find_languages()
        reader = _TmxReader(self._add_unit)
        with explain_read_errors(path), pathlib.Path(path).open("rb") as stream:
            try:
                reader.parser.ParseFile(stream)
            except (expat.ExpatError, ValueError) as error:
                raise InputError(
                    f"{path} is no TMX file: {error}; expected <tmx> with "
                    "<tu> and <tuv>."
                ) from None

    def _add_unit(self, texts, markup):
        source, target = (
            texts.get(code)
            or next(
                (
                    text
                    for each, text in texts.items()
                    if base_code(each) == base_code(code)
                ),
                None,
            )
            for code in self._languages
        )
        if source and target:
            # As in other programs, the last of several holds.
            self.add(Segment(source, markup), target)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes all units to a TMX file, atomically."""
        source, target = map(saxutils.quoteattr, self._find_languages())
        out = io.StringIO()
        out.write(_HEADER.format(source))
        for (text, markup), translation in self._units.items():
            if _NO_XML.search(text + translation):
                continue
            kind = ""
            if markup != "text":
                kind = f'<prop type="{_MARKUP_TYPE}">{markup}</prop>'
            out.write(f"<tu>{kind}")
            for language, each in (source, text), (target, translation):
                out.write(f"<tuv xml:lang={language}><seg>{_escape(each)}")
                out.write("</seg></tuv>")
            out.write("</tu>\n")
        out.write("</body>\n</tmx>\n")
        write_bytes(path, out.getvalue().encode("utf-8"))

    def _find_languages(self) -> tuple[str, str]:
        source, target = self._languages
        if source is None or target is None:
            raise InputError(
                "A translation memory names both languages, and the model does "
                "not: give --source_language and --target_language."
            )
        return source, target


def _normalize(segment):
    """Returns the same Segment for text that is no markup."""
    is_text = "<" not in segment.text and "&" not in segment.text
    return Segment(segment.text, "text" if is_text else segment.markup)


def _escape(text):
    # A carriage return would be read as a line feed.
    return saxutils.escape(text, {"\r": "&#13;"})


class _TmxReader:
    """Calls a function of {language: text} and the markup of each unit."""

    def __init__(self, add_unit):
        self._add_unit = add_unit
        self._path, self._texts, self._parts = [], {}, []
        self._markup, self._language, self._kind = "text", "", ""
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._parts.append
        self.parser.EntityDeclHandler = self._refuse_entity

    def _refuse_entity(self, name, *declaration):
        raise ValueError(f"it declares the entity {name}, which is not read")

    def _start(self, name, attributes):
        if not self._path and name != "tmx":
            raise ValueError(f"it begins with <{name}>")
        self._path.append(name)
        if name == "tu":
            self._texts, self._markup = {}, "text"
        elif name == "tuv":
            # "lang" is that of TMX 1.1.
            language = attributes.get("xml:lang", attributes.get("lang", ""))
            self._language = language
        elif name == "prop":
            self._kind = attributes.get("type", "")
        if name in ("tuv", "prop", "seg"):
            self._parts.clear()

    def _end(self, name):
        self._path.pop()
        if name == "seg":
            self._texts[self._language] = "".join(self._parts)
        elif name == "prop" and self._kind == _MARKUP_TYPE:
            self._markup = "".join(self._parts)
        elif name == "tu":
            self._add_unit(self._texts, self._markup)
        if "seg" not in self._path:
            # Text between elements is not collected.
            self._parts.clear()
