"""Plain text: its wrapped lines, indentation and bullets."""

import re

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
# What is not parted by the end of a line: a word, or a character that needs no
# spaces and the marks around it. Nobody knows the words of Thai here.
_FIRST_WORD = re.compile(
    rf"[{WIDE_MARKS}]*(?:[{CHINESE}][{WIDE_MARKS}]*"
    rf"|(?![{CHINESE}])[{NO_SPACES}]{{1,12}}|[^\s{NO_SPACES}{WIDE_MARKS}]*)"
)


def read_text(text):
    """Returns a list of str, which stay as they are, and flows.

    A flow, a list of Item, is a line without indentation and bullet, or those
    of a wrapped paragraph. A line is wrapped if it was as full as the widest
    line of its paragraph, of 40 columns or more: the first word of the next
    line, which has no bullet, did not fit.
    """
    parts, paragraph = [], []
    for line in text.splitlines(keepends=True):
        if line.isspace():
            _add_paragraph(parts, paragraph)
            paragraph = []
            parts.append(line)
        else:
            paragraph.append(line)
    _add_paragraph(parts, paragraph)
    return parts


def is_wrapped(width, line_width, next_line):
    """Whether a line of a paragraph is as full as its widest, `width`."""
    first_word = _FIRST_WORD.match(next_line)[0]
    return width < line_width + 1 + _width(first_word)


def _add_paragraph(parts, lines):
    matches = [_LINE.fullmatch(line) for line in lines]
    widths = [_width(match.string[: match.end("body")]) for match in matches]
    width = max(widths, default=0)
    flow, separator = [], ""
    for index, match in enumerate(matches):
        indent, bullet, body, end = match.groups()
        is_continued = (
            index > 0
            and not bullet
            and width >= MIN_WRAP_WIDTH
            and is_wrapped(width, widths[index - 1], body)
            and "\t" not in matches[index - 1]["body"] + body
        )
        if is_continued:
            flow.append(Item(Kind.SPACE, separator + indent, " "))
        else:
            parts += [flow, separator + indent + bullet]
            flow = []
        # Tabs separate columns.
        *columns, body = re.split(r"(\t+)", body)
        for column, tabs in zip(columns[::2], columns[1::2]):
            parts += [[*text_items(column)], tabs]
        flow += text_items(body)
        separator = end
    parts += [flow, separator]


def _width(text):
    """Returns the number of columns: wide characters take two."""
    return len(text) + (0 if text.isascii() else len(_WIDE.findall(text)))
