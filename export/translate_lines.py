"""Translates a stream of lines in bounded memory, in order."""

import itertools

from export.errors import InputError

# Lines read ahead and sorted by length together: little enough for any
# memory, enough for full batches. The first are few, so that they come soon.
_FIRST_CHUNK = 128
_CHUNK = 4096


def chunk_sizes():
    """Yields how many lines to take at a time."""
    size = _FIRST_CHUNK
    while True:
        yield size
        size = min(2 * size, _CHUNK)


def translate_lines(lines, ask, line_format, write, sizes):
    """Translates lines.

    Args:
        lines: iterator of str, or of pairs of them.
        ask: function of a list of these, that returns a list of lists of
            Translation.
        line_format: of `export.line_formats`.
        write: function of a list of lines of output.
        sizes: iterator of the numbers of lines to take at a time.

    Returns:
        The numbers, from 1, of the lines whose beginnings alone were
        translated: the first few, and how many there were.
    """
    number, first_cut, cut = 0, [], 0
    while chunk := list(itertools.islice(lines, next(sizes))):
        output = []
        for found in ask(chunk):
            output += line_format(number, found)
            number += 1
            if found[0].source_is_cut:
                cut += 1
                first_cut = [*first_cut, number][:3]
        write(output)
    return first_cut, cut


def paired_lines(sources, others, flag):
    """Yields pairs of lines of two iterators.

    Args:
        sources: lines of --input.
        others: lines that go with them.
        flag: name of the flag that named their file.

    Raises:
        InputError: one has more lines.
    """
    missing = object()
    lines = itertools.zip_longest(sources, others, fillvalue=missing)
    for number, (source, other) in enumerate(lines, 1):
        if source is missing or other is missing:
            longer = flag if source is missing else "input"
            raise InputError(
                f"--{longer} has a line {number} and the other file has not; "
                f"--{flag} needs a line for each of --input."
            )
        yield source, other


def read_lines(stream, name="the input"):
    r"""Yields the lines of a binary stream as str, without their "\n".

    Args:
        stream: to read.
        name: of it, for messages.

    Raises:
        InputError: a line is not UTF-8; its number is named.
    """
    for number, line in enumerate(stream, 1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                f"Line {number} of {name} is not UTF-8; convert it first, "
                "with iconv for example."
            ) from None
