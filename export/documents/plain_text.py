"""Plain text: its wrapped lines, indentation and bullets."""

import itertools
import re
from collections.abc import Iterator

from export.documents.items import Item, Kind, text_items
from export.documents.patterns import CHINESE, NO_SPACES, WIDE_MARKS

# Narrower lines are not wrapped: poems, addresses, lists without bullets.
MIN_WRAP_WIDTH = 40
_LINE = re.compile(
    # Indentation, with the ">" of quoted mail.
    r"(?P<indent>[\s>|\ufeff]*)"
    r"(?P<bullet>(?:(?:[-*+#\u2022\u2023\u2043\u25aa\u25cf\u25e6\u00b7\u2013"
    r"\u2014]+|\(?(?:\d{1,3}|[a-zA-Z])\)|\d{1,3}\.)\s+)*)"
    r"(?P<body>(?:\S++|\s++(?=\S))*+)(?P<end>\s*)"
)
_WIDE = re.compile(f"[{CHINESE}{WIDE_MARKS}\u1100-\u115f\uac00-\ud7a3]")
# What a line end does not divide: the word "house", or one character of Chinese
# with the marks around it. The words of Thai are unknown here.
_FIRST_WORD = re.compile(
    rf"[{WIDE_MARKS}]*(?:[{CHINESE}][{WIDE_MARKS}]*"
    rf"|(?![{CHINESE}])[{NO_SPACES}]{{1,12}}|[^\s{NO_SPACES}{WIDE_MARKS}]*)"
)


def read_text(text: str) -> Iterator[str | list[Item]]:
    """Yields str, which stay as they are, and flows.

    A flow, a list of Item, is a line without indentation and bullet, or the
    lines of a wrapped paragraph: "- Hi." gives "- " and the items of "Hi.", and
    the line end. A line is wrapped if it was as full as the widest line of its
    paragraph, of 40 columns or more, and the next line has no bullet.
    """
    lines = text.splitlines(keepends=True)
    for is_blank, group in itertools.groupby(lines, str.isspace):
        if is_blank:
            yield from group
        else:
            matches = [_LINE.fullmatch(line) for line in group]
            for wrapped in _group_wrapped(matches):
                yield from _read_lines(wrapped)


def is_full(width: int, line_width: int, next_line: str) -> bool:
    """Whether a line had no space, up to `width`, for the next line's word."""
    # It matches any text.
    first_word = _FIRST_WORD.match(next_line)[0]  # type: ignore[index]
    return width < line_width + 1 + _width(first_word)


def _group_wrapped(matches):
    """Returns lists of the lines of a paragraph that are one text."""
    widths = [_width(match.string[: match.end("body")]) for match in matches]
    width = max(widths)
    groups = [matches[:1]]
    for line_width, (before, match) in zip(widths, itertools.pairwise(matches)):
        is_continued = (
            width >= MIN_WRAP_WIDTH
            and not match["bullet"]
            and is_full(width, line_width, match["body"])
            and "\t" not in before["body"] + match["body"]
        )
        if is_continued:
            groups[-1].append(match)
        else:
            groups.append([match])
    return groups


def _read_lines(matches):
    """Yields str and flows of a line, or of several that are one text."""
    first, last = matches[0], matches[-1]
    yield first["indent"] + first["bullet"]
    # Tabs separate columns; wrapped lines have none.
    *columns, body = re.split(r"(\t+)", first["body"])
    for column, tabs in zip(columns[::2], columns[1::2]):
        yield [*text_items(column)]
        yield tabs
    flow = [*text_items(body)]
    for before, match in itertools.pairwise(matches):
        flow.append(Item(Kind.SPACE, before["end"] + match["indent"], " "))
        flow += text_items(match["body"])
    yield flow
    yield last["end"]


def _width(text):
    """Returns the number of columns: wide characters take two."""
    return len(text) + (0 if text.isascii() else len(_WIDE.findall(text)))
