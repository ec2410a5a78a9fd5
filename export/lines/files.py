"""Files of sentences, and of the translations that count as right."""

import pathlib

from export.errors import InputError
from export.lines.streams import read_lines


def read_sentences(path):
    """Returns the lines of a file as a list of str.

    Raises:
        InputError: it cannot be read, is empty or not UTF-8.
    """
    try:
        with pathlib.Path(path).open("rb") as stream:
            lines = list(read_lines(stream, str(path)))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if not lines:
        raise InputError(f"{path} is empty; it must hold a sentence a line.")
    return lines


def read_references(paths, count):
    """Reads right translations as sacreBLEU takes them.

    Args:
        paths: list of files, a translation a line. A blank line of the
            second and later files says that the sentence has no other one.
        count: how many sentences there are.

    Returns:
        A list of lists of str, one list a file; None for no other one.

    Raises:
        InputError: a file cannot be read, or has another number of lines.
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
