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
import zlib

from export.common.errors import InputError
from export.common.storage import (
    error_reason,
    explain_read_errors,
    is_local,
    resolve_path,
)

# Limits the memory for a file without line ends.
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16

# Line ends of `str.splitlines`, and the fourth information separator, "\x1f".
_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1f\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def join_lines(text):
    """Returns text as one line: spaces for line breaks, and no NUL.

    All text that is read or written passes through it. Raises InputError for a
    surrogate, which is not a character.
    """
    if text.isprintable():
        return text
    surrogate = _SURROGATE.search(text)
    if surrogate:
        raise InputError(
            f"{text[:60]!r} cannot be written as UTF-8: it holds U+"
            f"{ord(surrogate[0]):04X}, half of a character; correct the text."
        )
    return _BREAK.sub(" ", text).replace("\0", "")


class DecodedLines:
    r"""Iterates over the lines of a binary UTF-8 stream, as str.

    Only "\n" ends a line; `join_lines` replaces other line breaks, unless
    `verbatim` is set, as for files of tokens. A "\r" at the end of a line and
    a byte order mark at the start of the stream are dropped. The stream, called
    `name` in messages, has no other reader. Raises InputError if a line is not
    UTF-8 or longer than 1 MiB, or the stream cannot be read.
    """

    def __init__(self, stream, name="the input", verbatim=False):
        self._stream, self._name = stream, name
        self._verbatim = verbatim
        self._poll = _poll(stream)
        # Complete lines in reverse order, and the start of an incomplete one.
        self._lines, self._rest = [], b""
        self._number, self._is_at_end = 0, False

    def __iter__(self):
        return self

    def __next__(self):
        while not (self._lines or self._is_at_end):
            self._read()
        if not self._lines:
            raise StopIteration
        self._number += 1
        raw = self._lines.pop()
        if len(raw) > _LONGEST_LINE:
            raise self._too_long(self._number)
        if self._number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(
                f"Line {self._number} of {self._name} is not UTF-8 "
                f"({error.reason} at byte {error.start + 1}); convert it "
                "first, with iconv for example."
            ) from None
        return text if self._verbatim else join_lines(text)

    def has_line(self, deadline):
        """Returns whether a line, or the end, comes before a monotonic time."""
        while not (self._lines or self._is_at_end):
            seconds = max(deadline - time.monotonic(), 0)
            if self._poll and not self._poll.poll(1000 * seconds):
                return False
            self._read()
        return True

    def _read(self):
        if len(self._rest) > _LONGEST_LINE:
            raise self._too_long(self._number + 1)
        try:
            if self._poll:
                # A non-blocking stream without data looks like its end.
                self._poll.poll()
            block = self._stream.read1(_BLOCK)
        except OSError as error:
            raise InputError(
                f"Cannot read {self._name}: {error_reason(error)}."
            ) from error
        *lines, self._rest = (self._rest + block).split(b"\n")
        if not block:
            self._is_at_end = True
            lines = [self._rest] if self._rest else []
        self._lines = lines[::-1]

    def _too_long(self, number):
        return InputError(
            f"Line {number} of {self._name} is longer than {_LONGEST_LINE} "
            "bytes; expected one sentence per line."
        )


def _poll(stream):
    """Returns a poll object of a stream; None if reading never waits."""
    raw = getattr(stream, "raw", None)
    if not isinstance(raw, io.FileIO):
        return None
    if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    poll = select.poll()
    poll.register(raw, select.POLLIN)
    return poll


def read_lines(path, verbatim=False):
    """Yields the lines of a file or URL; decompresses names in .gz.

    Raises InputError if it cannot be read, is not a complete gzip file, or as
    `DecodedLines` does.
    """
    path = resolve_path(path)
    try:
        with explain_read_errors(path), _open(path) as stream:
            yield from DecodedLines(stream, str(path), verbatim)
    except (EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete gzip file ({error}); make it again."
        ) from error


def aligned_lines(paths):
    """Yields tuples of line 1 of every file, line 2 of every file, and so on.

    Raises InputError if a file cannot be read or, at the end of the shortest
    one, if the numbers of lines differ.
    """
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(contextlib.closing(read_lines(path)))
            for path in paths
        ]
        for number, row in enumerate(itertools.zip_longest(*readers)):
            if None in row:
                counts = [
                    number + (line is not None) + sum(1 for _ in reader)
                    for line, reader in zip(row, readers)
                ]
                described = ", ".join(
                    f"{path} has {count}" for path, count in zip(paths, counts)
                )
                raise InputError(
                    "Parallel files differ in their number of lines: "
                    f"{described}; line n of each must be the same sentence."
                )
            yield row


def read_sentences(path):
    """Returns the lines of a file as a list; InputError if it is empty."""
    lines = list(read_lines(path))
    if not lines:
        raise InputError(f"{path} is empty; it must hold a sentence a line.")
    return lines


def read_references(paths, count):
    """Returns reference translations as sacreBLEU takes them.

    They are a list of str for each file; None, for a blank line of the second
    and later files, means no further reference. Raises InputError if a file
    cannot be read or has not `count` lines.
    """
    streams = []
    for path in paths:
        lines = read_sentences(path)
        if len(lines) != count:
            raise InputError(
                f"{path} has {len(lines):,} lines for {count:,} sentences; "
                "it must have a line for each."
            )
        if streams:
            lines = [line if line.strip() else None for line in lines]
        streams.append(lines)
    return streams


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
