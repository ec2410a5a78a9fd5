"""Reads text files line by line, side by side, and says what is wrong."""

import codecs
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from export.errors import InputError

# A file without line ends would otherwise be read into memory whole.
_LONGEST_LINE = 1 << 20


def read_lines(path: Path) -> Iterator[str]:
    r"""Streams the lines of a UTF-8 file, unpacking it if it ends in .gz.

    Only "\n" ends a line: U+2028, U+0085 and their like are part of the
    text. A "\r" at the end of a line and a byte order mark at the start of
    the file are dropped.

    Raises:
        InputError: the file cannot be read, is a folder, is not UTF-8, is
            not a whole gzip file, or has a line of more than 1 MiB.
    """
    try:
        with _open(path) as file:
            yield from _decode(path, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a whole gzip file ({error}); make it anew."
        ) from error
    except IsADirectoryError as error:
        raise InputError(
            f"{path} is a folder, but a text file was expected there."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error


def aligned_lines(paths: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Streams line 1 of every file, line 2 of every file, and so on.

    Raises:
        InputError: as for `read_lines`; or, at the end of the shortest
            file, that the files do not have the same number of lines.
    """
    readers = [read_lines(path) for path in paths]
    for number, row in enumerate(itertools.zip_longest(*readers)):
        if None in row:
            _refuse_unequal(paths, readers, row, number)
        yield row


def _open(path: Path) -> BinaryIO:
    if path.suffix != ".gz":
        return path.open("rb")
    # GzipFile finds its lines in Python; the buffer around it does so in C.
    return io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")))


def _decode(path: Path, file: BinaryIO) -> Iterator[str]:
    for number in itertools.count(1):
        raw = file.readline(_LONGEST_LINE + 1)
        if not raw:
            return
        if len(raw) > _LONGEST_LINE:
            raise InputError(
                f"{path}, line {number} is longer than {_LONGEST_LINE} bytes; "
                "one sentence a line was expected."
            )
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number} is not UTF-8 ({error.reason} at byte "
                f"{error.start + 1} of the line); convert the file to UTF-8."
            ) from error
        yield text.removesuffix("\n").removesuffix("\r")


def _refuse_unequal(
    paths: Sequence[Path],
    readers: Sequence[Iterator[str]],
    row: tuple[str | None, ...],
    number: int,
) -> None:
    """Reads on to the ends, to name the length of every file."""
    lengths = [
        number if line is None else number + 1 + sum(1 for _ in reader)
        for line, reader in zip(row, readers, strict=True)
    ]
    described = ", ".join(
        f"{path} has {length}"
        for path, length in zip(paths, lengths, strict=True)
    )
    raise InputError(
        f"Files that belong together differ in their number of lines: "
        f"{described}; line n of each must be the same sentence."
    )
