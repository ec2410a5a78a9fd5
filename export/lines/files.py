"""Reads lines of files and streams: sentences, parallel text, references."""

import codecs
import contextlib
import gzip
import io
import itertools
import os
import re
import select
import stat
import time
import unicodedata
import zlib
from collections.abc import Generator, Iterator, Sequence

from export.common.errors import InputError
from export.common.storage import (
    AnyPath,
    error_reason,
    explain_read_errors,
    is_local,
    resolve_path,
)
from export.lines.file_formats import detect_binary

# Limits the memory for a file without line ends.
_MAX_LINE_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 16
# Line ends of `str.splitlines`, and the fourth information separator, "\x1f".
_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1f\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# White space, controls and format characters such as U+200B; SentencePiece's
# rules remove most of them, and replace its own mark and U+FFFD by spaces.
_INVISIBLE_CATEGORIES = ("Cc", "Cf", "Zl", "Zp", "Zs")
_REPLACED = "\u2581\ufffd"
_WORD_CHARACTER = re.compile(r"\w")


def join_lines(text: str) -> str:
    """Replaces line breaks in text by spaces, and removes NUL.

    Raises InputError for a surrogate, which is not a character.
    """
    # Such text has none of these characters, and most text is such.
    if text.isprintable():
        return text
    surrogate = _SURROGATE.search(text)
    if surrogate:
        raise InputError(
            f"{text[:60]!r} cannot be written as UTF-8: it holds U+"
            f"{ord(surrogate[0]):04X}, half of a character; correct the text."
        )
    return _LINE_BREAK.sub(" ", text).replace("\0", "")


def clean_line(text: str) -> str:
    """Returns a text as one line, stripped; "" if no character is visible."""
    line = join_lines(text).strip()
    # Most lines begin with such a character.
    if _WORD_CHARACTER.search(line) or any(map(_is_visible, line)):
        return line
    return ""


def _is_visible(character):
    category = unicodedata.category(character)
    return category not in _INVISIBLE_CATEGORIES and character not in _REPLACED


class DecodedLines:
    r"""Iterates over the lines of a binary UTF-8 stream, as str.

    Only "\n" ends a line; `join_lines` replaces other line breaks, unless
    `verbatim` is set, as for files of tokens. A "\r" at the end of a line and
    a byte order mark at the start of the stream are dropped. The stream has no
    other reader; `name` is for messages. Raises InputError if a line is not
    UTF-8 or longer than 1 MiB, or the stream cannot be read.
    """

    def __init__(
        self,
        stream: io.BufferedIOBase,
        name: str = "the input",
        verbatim: bool = False,
    ):
        self._stream = stream
        self._name = name
        self._verbatim = verbatim
        self._poller = _create_poller(stream)
        # Complete lines that were read, the next one last.
        self._lines: list[bytes] = []
        # The start of the line after these.
        self._incomplete_line = b""
        self._line_number = 0
        self._is_at_end = False

    def __iter__(self):
        return self

    def __next__(self):
        while not (self._lines or self._is_at_end):
            self._read_block()
        if not self._lines:
            raise StopIteration
        self._line_number += 1
        raw = self._lines.pop()
        if len(raw) > _MAX_LINE_BYTES:
            raise self._too_long_error(self._line_number, raw)
        if self._line_number == 1:
            self._binary_format = detect_binary(raw)
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            problem = f"{error.reason} at byte {error.start + 1}"
            advice = "convert it with iconv, for example"
            problem, advice = self._binary_format or (problem, advice)
            raise InputError(
                f"Line {self._line_number} of {self._name} is not UTF-8 but "
                f"{problem}: {advice} first."
            ) from None
        return text if self._verbatim else join_lines(text)

    def has_line(self, deadline: float) -> bool:
        """Waits for a line or the end; returns False at the deadline."""
        while not (self._lines or self._is_at_end):
            seconds = max(deadline - time.monotonic(), 0)
            if self._poller and not self._poller.poll(1000 * seconds):
                return False
            self._read_block()
        return True

    def _read_block(self):
        if len(self._incomplete_line) > _MAX_LINE_BYTES:
            number = self._line_number + 1
            raise self._too_long_error(number, self._incomplete_line)
        try:
            if self._poller:
                # Without data `read1` of a non-blocking stream returns nothing,
                # as at its end. Only `has_line` has waited for data before.
                self._poller.poll()
            block = self._stream.read1(_BLOCK_BYTES)
        except OSError as error:
            raise InputError(
                f"Cannot read {self._name}: {error_reason(error)}."
            ) from error
        text = self._incomplete_line + block
        *lines, self._incomplete_line = text.split(b"\n")
        if not block:
            self._is_at_end = True
            lines = [text] if text else []
        self._lines = lines[::-1]

    def _too_long_error(self, number, raw):
        advice = ""
        if b"\r" in raw:
            advice = r", with tr '\r' '\n' if carriage returns end its lines"
        return InputError(
            f"Line {number} of {self._name} is longer than {_MAX_LINE_BYTES} "
            f"bytes; give one sentence per line{advice}."
        )


def _create_poller(stream):
    """Returns a select.poll of a stream; None if reading never waits."""
    raw = getattr(stream, "raw", None)
    if not isinstance(raw, io.FileIO):
        return None
    if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    poller = select.poll()
    poller.register(raw, select.POLLIN)
    return poller


def read_lines(
    path: "str | AnyPath", verbatim: bool = False
) -> Generator[str, None, None]:
    """Yields the lines of a file or URL, decompressed if its name ends in .gz.

    Raises InputError if it cannot be read, is not a complete gzip file, or has
    a line that `DecodedLines` refuses.
    """
    path = resolve_path(path)
    try:
        with explain_read_errors(path), _open(path) as stream:
            yield from DecodedLines(stream, str(path), verbatim)
    except (EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file ({error}); create it again."
        ) from error


def aligned_lines(
    paths: "Sequence[str | AnyPath]",
) -> Iterator[tuple[str, ...]]:
    """Yields tuples of line 1 of each file, line 2 of each file, and so on.

    Raises InputError if a file cannot be read or, at the end of the shortest
    one, if the files differ in their number of lines.
    """
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(contextlib.closing(read_lines(path)))
            for path in paths
        ]
        for index, lines in enumerate(itertools.zip_longest(*readers)):
            if None in lines:
                descriptions = []
                for path, line, reader in zip(paths, lines, readers):
                    num_read = index if line is None else index + 1
                    num_unread = sum(1 for _ in reader)
                    descriptions.append(f"{path} has {num_read + num_unread}")
                raise InputError(
                    "Parallel files differ in their number of lines: "
                    f"{', '.join(descriptions)}; line n of each must be the "
                    "same sentence."
                )
            yield lines


def read_sentences(path: "str | AnyPath") -> list[str]:
    """Returns the lines of a file; InputError if it is empty."""
    lines = list(read_lines(path))
    if not lines:
        raise InputError(f"{path} is empty; expected one sentence per line.")
    return lines


def read_references(
    paths: "Sequence[str | AnyPath]", count: int
) -> list[Sequence[str | None]]:
    """Returns reference translations for sacreBLEU, a list for each file.

    A blank line of the second and later files is None, no further reference.
    Raises InputError if a file cannot be read or has not `count` lines.
    """
    references: list[Sequence[str | None]] = []
    for path in paths:
        lines = read_sentences(path)
        if len(lines) != count:
            raise InputError(
                f"{path} has {len(lines):,} lines for {count:,} sentences; "
                "expected one line per sentence."
            )
        column: Sequence[str | None] = lines
        if references:
            column = [line if clean_line(line) else None for line in lines]
        references.append(column)
    return references


@contextlib.contextmanager
def _open(path):
    is_compressed = path.suffix == ".gz"
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(path.open("rb"))
        if is_compressed:
            file = stack.enter_context(gzip.open(file))
        if is_compressed or not is_local(path):
            # DecodedLines needs read1, which files of fsspec lack.
            file = stack.enter_context(io.BufferedReader(file))
        yield file
