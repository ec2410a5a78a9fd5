"""Test sets that OPUS-MT publishes with translations of its models."""

import typing

from export.common.errors import InputError
from export.lines.files import read_lines

# Entities that OPUS-MT's files replace, in this order.
_ESCAPED = {
    "&apos;": "'",
    "&quot;": '"',
    "&lt;": "<",
    "&gt;": ">",
    "&amp;": "&",
}


class Published(typing.NamedTuple):
    """A published test set: three lists of str of the same length."""

    sources: list[str]
    references: list[str]
    translations: list[str]


def read_published(path):
    """Returns the Published of a file such as `opus-2020-01-08.test.txt`.

    For each sentence it has a line of the source, one of the reference, one of
    the model's translation, and a blank one. Raises InputError for another
    format, or if the file cannot be read.
    """
    lines = list(read_lines(path))
    if len(lines) % 4 == 3:
        lines.append("")
    wrong = [
        f"Line {number} of {path} is {'not ' * (number % 4 == 0)}blank"
        for number, line in enumerate(lines, 1)
        if (number % 4 == 0) != (not line)
    ]
    if len(lines) % 4 or not lines:
        wrong.append(f"{path} ends within a sentence")
    if wrong:
        raise InputError(
            f"{wrong[0]}; expected a source, its reference, its translation "
            "and a blank line for each sentence, as in OPUS-MT's *.test.txt."
        )
    return Published(lines[0::4], lines[1::4], lines[2::4])


def as_published(text):
    """Returns a translation in the spelling of OPUS-MT's files."""
    for escaped, character in _ESCAPED.items():
        text = text.replace(escaped, character)
    return text.strip(" ")
