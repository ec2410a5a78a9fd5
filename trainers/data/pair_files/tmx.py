"""Reads the units of TMX, the format of translation memories.

Units that are not well-formed XML are skipped, and reading resumes at the next
one. Inline codes (`bpt`, `ept`, `it`, `ph`, `ut`) are dropped with their
content; the text in `hi` remains.
"""

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from xml.parsers import expat

from export.common.errors import InputError
from export.common.storage import AnyPath, explain_read_errors
from trainers.data.pair_files.readers import Row, Sides, Skip, find_side

_BLOCK_BYTES = 1 << 18
# Limits the memory for a file without ends of units.
_MAX_UNIT_BYTES = 1 << 24
_UNIT_END = b"</tu>"
_UNIT_START = re.compile(rb"<tu[\s>]")
# What comes before the units when reading resumes.
_ROOT = b"<tmx><body>"
_ENCODING = re.compile(rb"""<\?xml[^>]*\sencoding\s*=\s*["']([\w.-]+)["']""")


def read_tmx(
    path: AnyPath, languages: Sides, columns: None, skip: Skip
) -> Iterator[Row]:
    """Reads the units of a file; its variants of a target are references."""
    del columns
    parser = _UnitParser(path, languages, skip)
    for block in _read_blocks(path):
        parser.parse(block)
        yield from parser.rows
        parser.rows.clear()
    parser.close()


def _read_blocks(path):
    """Yields UTF-8 of a file, cut at the ends of units."""
    rest = b""
    try:
        with explain_read_errors(path), _open(path) as read:
            while data := read(_BLOCK_BYTES):
                rest += data
                end = rest.rfind(_UNIT_END) + len(_UNIT_END)
                if end >= len(_UNIT_END):
                    yield rest[:end]
                    rest = rest[end:]
                elif len(rest) > _MAX_UNIT_BYTES:
                    raise _no_unit_error(path)
    except (EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file ({error}); create it again."
        ) from error
    except (UnicodeError, LookupError) as error:
        raise InputError(
            f"{path} is not in the encoding that it declares ({error}); "
            "convert it to UTF-8."
        ) from error
    yield rest


def _no_unit_error(path):
    return InputError(
        f"{path} has no unit in {_MAX_UNIT_BYTES >> 20} MiB; expected TMX, "
        "with short units that end with </tu>."
    )


@contextlib.contextmanager
def _open(path):
    """Opens a file, and yields a function that reads UTF-8."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if path.suffix == ".gz":
            file = stack.enter_context(gzip.open(file))
        file = stack.enter_context(io.BufferedReader(file))
        encoding = _detect_encoding(file.peek(1)[:200])
        if encoding is None:
            yield file.read
        else:
            text = io.TextIOWrapper(file, encoding, newline="")
            yield lambda size: text.read(size).encode()


def _detect_encoding(start):
    """Returns the encoding of a file, None if UTF-8.

    A declared UTF-16 is wrong if the declaration can be read as it is here.
    """
    for mark, encoding in (
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
        (b"<\0", "utf-16-le"),
        (b"\0<", "utf-16-be"),
    ):
        if start.startswith(mark):
            return encoding
    declared = _ENCODING.search(start)
    encoding = declared[1].decode().lower() if declared else "utf-8"
    return None if encoding.startswith("utf") else encoding


class _UnitParser:
    """Parses blocks of a file; `rows` has the Rows of complete units."""

    def __init__(self, path, languages, skip):
        self.rows = []
        self._path = path
        self._languages = languages
        self._skip = skip
        # Lines before the parser's first one, and bytes that it has read.
        self._line = self._num_read = 0
        self._num_units = self._num_bytes_since_unit = 0
        self._start()

    def _start(self):
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start_element
        parser.EndElementHandler = self._end_element
        parser.EntityDeclHandler = self._refuse_entities
        parser.SkippedEntityHandler = self._skip_entity
        # Texts of source and target in an open unit.
        self._texts = None
        self._side = None
        self._is_in_text, self._parts = False, []
        # Depth in inline codes.
        self._depth = 0

    def parse(self, block):
        """Parses the next block; resumes at the next unit after an error."""
        position, view, num_units = 0, memoryview(block), self._num_units
        while True:
            if self._parser is None:
                found = _UNIT_START.search(block, position)
                end = found.start() if found else len(block)
                self._line += block.count(b"\n", position, end)
                if not found:
                    return
                position = end
                self._start()
                self._parser.Parse(_ROOT)
                self._num_read = len(_ROOT)
            try:
                self._parser.Parse(view[position:])
                break
            except expat.ExpatError as error:
                self._skip_error(error)
                index = self._parser.ErrorByteIndex - self._num_read
                # Beyond the start of a unit whose tag is malformed.
                position += max(index, 0) + 1
                self._parser = None
        self._num_read += len(block) - position
        self._num_bytes_since_unit += len(block)
        if self._num_units > num_units:
            self._num_bytes_since_unit = 0
        # A comment or text that has ends of units.
        if self._num_bytes_since_unit > _MAX_UNIT_BYTES:
            raise _no_unit_error(self._path)

    def close(self):
        """Validates the end of the file."""
        if self._parser is not None:
            try:
                self._parser.Parse(b"", True)
            except expat.ExpatError as error:
                self._skip_error(error)

    def _skip_error(self, error):
        self._line += error.lineno - 1
        place = f"line {self._line + 1:,}"
        self._skip(place, expat.ErrorString(error.code))

    def _skip_unit(self, reason):
        line = self._line + self._parser.CurrentLineNumber
        self._skip(f"line {line:,}", reason)

    def _start_element(self, name, attributes):
        if self._is_in_text:
            if self._depth or name != "hi":
                self._depth += 1
                self._parser.CharacterDataHandler = None
        elif name == "seg":
            if self._side is not None:
                self._is_in_text = True
                self._parser.CharacterDataHandler = self._parts.append
        elif name == "tuv":
            if self._texts is not None:
                code = attributes.get("xml:lang") or attributes.get("lang", "")
                self._side = find_side(code, self._languages)
                if self._side is None:
                    self._codes.append(code)
        elif name == "tu":
            if self._texts is not None:
                self._skip_unit("the unit before has no end")
            self._texts, self._side = ([], []), None
            self._codes, self._problem = [], ""

    def _end_element(self, name):
        if self._is_in_text:
            if self._depth:
                self._depth -= 1
                if not self._depth:
                    self._parser.CharacterDataHandler = self._parts.append
            elif name == "seg":
                self._is_in_text = False
                self._parser.CharacterDataHandler = None
                self._texts[self._side].append("".join(self._parts))
                self._parts.clear()
        elif name == "tu" and self._texts is not None:
            self._num_units += 1
            sources, targets = self._texts
            if sources and targets and not self._problem:
                self.rows.append((sources[0], tuple(targets)))
            else:
                self._skip_unit(self._problem or self._describe_missing())
            self._texts = self._side = None

    def _describe_missing(self):
        pairs = zip(self._languages, self._texts)
        missing = " and ".join(language for language, text in pairs if not text)
        others = f"; it has {', '.join(self._codes)}" if self._codes else ""
        return f"no text in {missing}{others}"

    def _skip_entity(self, name, is_parameter):
        if not is_parameter:
            self._problem = f"undefined entity &{name};"

    def _refuse_entities(self, *_):
        raise InputError(
            f"{self._path} declares XML entities, which may name other files; "
            "remove them from its DOCTYPE."
        )
