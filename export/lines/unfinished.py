"""Output that a stopped command left, to go on with."""

import os
import pathlib

from export.common.errors import InputError
from export.lines.files import read_lines


def lines_answered(source, output, has_answer, fits):
    """Finds how far a command came that wrote a line of output a line.

    What it left of a last line is cut off.

    Args:
        source: path of the lines that are answered.
        output: path of the answers, which need not exist.
        has_answer: function of a line of the source: whether a line of the
            output is its answer.
        fits: function of a line of the source and of one of the output:
            whether that is its answer. It is asked about the last one.

    Returns:
        How many lines of the source have been passed.

    Raises:
        InputError: a file cannot be read or written, or the output is of
            another source.
    """
    path = pathlib.Path(output)
    try:
        count, last, size = _whole_lines(path)
        passed = _passed(source, count, has_answer, last, fits)
        if passed is None:
            raise InputError(
                f"--output={output} does not hold the answers to the beginning "
                f"of --input={source}; give the same flags as before, or name "
                "another --output."
            )
        if path.is_file():
            os.truncate(path, size)
    except OSError as error:
        raise InputError(
            f"--output={output} cannot be gone on with: {error.strerror}."
        ) from error
    return passed


def _whole_lines(path):
    """Returns how many there are, the last one, and their bytes."""
    count, last, size = 0, b"", 0
    if path.exists():
        with path.open("rb") as stream:
            for line in stream:
                if line.endswith(b"\n"):
                    count, last, size = count + 1, line, size + len(line)
    return count, last.decode("utf-8", "replace").removesuffix("\n"), size


def _passed(source, count, has_answer, last, fits):
    """Returns the number of the line whose answer is the last, or None."""
    if not count:
        return 0
    for number, line in enumerate(read_lines(source), 1):
        if has_answer(line):
            count -= 1
            if not count:
                return number if fits(line, last) else None
    return None
