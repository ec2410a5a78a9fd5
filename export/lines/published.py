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
    """A published test set: three lists of str, of one length."""

    sources: list[str]
    references: list[str]
    translations: list[str]


def read_published(path):
    """Reads a file such as `opus-2020-01-08.test.txt`.

    Args:
        path: of the file: for each sentence a line of the source, one of the
            reference, one of the model's translation, and a blank one.

    Returns:
        Published.

    Raises:
        InputError: as for `read_lines`; or the file is another one.
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
    """Returns a translation as OPUS-MT's files have it."""
    for escaped, character in _ESCAPED.items():
        text = text.replace(escaped, character)
    return text.strip(" ")
