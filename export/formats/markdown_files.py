"""Markdown: text of paragraphs, headings, lists and tables."""

import re

from export.formats.file_format import FileOptions, OpenFile, Segment
from export.formats.files import Place, splice
from export.lines.file_formats import decode_document

_FRONT_MATTER = re.compile(
    r"\ufeff?(---|\+\+\+)[ \t]*\r?\n(?s:.*?)\n\1[ \t]*(?:\r?\n|\Z)"
)
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\n|\r|\Z)")
# What would begin a block at the beginning of a line.
_BLOCK_START = re.compile(
    r"(\d{0,9})(?=[-+*>](?:\s|\Z)|#{1,6}(?:\s|\Z)|[=-]+\s*\Z|```|~~~"
    r"|(?<=\d)[.)](?:\s|\Z))"
)
_SOFT_BREAK = r"[ \t]*\n[ \t]*"
_HARD_BREAK = r"(?:[ \t]{2,}|\\)\n[ \t]*"
_TITLE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\))"""
# After the text of a link: an address with a title, or a reference.
_LINK_END = (
    r"\]\(\s*(?:<[^<>\n]*>|(?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.)*\))"
    rf"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?(?:\s+{_TITLE})?\s*\)"
    r"|\](?:\[[^\[\]]*\])?"
)
_FOOTNOTE = re.compile(r"(\[\^[^\]\s]+\]:?)")


def open_markdown(content: bytes, options: FileOptions) -> OpenFile:
    """Opens Markdown as CommonMark and GitHub's tables define it.

    Code, addresses, HTML's tags, front matter and definitions of links stay.
    """
    from markdown_it import MarkdownIt

    del options
    text = decode_document(content)
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    # Tokens then have the source of escapes and entities.
    parser.disable("text_join")
    front = _FRONT_MATTER.match(text)
    body = front.end() if front else int(text.startswith("\ufeff"))
    lines = [match.span(1) for match in _LINE.finditer(text, body)]
    places, position, kind = [], 0, ""
    for token in parser.parse("\n".join(text[a:b] for a, b in lines)):
        first, end_line = token.map or (0, 0)
        # Within lists and quotes it has their marks.
        if token.type == "html_block" and not token.level:
            start, end = lines[first][0], lines[end_line - 1][1]
            raw = text[start:end]
            places.append(Place(start, end, Segment(raw, "html"), str))
        elif token.type == "inline" and token.content.strip():
            is_cell = kind in ("td_open", "th_open")
            found = lines[first:end_line]
            if is_cell:
                spans = _find_cell(text, token.content, found[0], position)
            else:
                spans = _find_lines(text, token.content, found)
            if spans:
                position = spans[-1][1]
                places.append(_make_place(text, token, spans, is_cell))
        kind = token.type
    return splice(text, places)


def _find_lines(text, content, lines):
    """Returns the (start, end) of each line of a block's content."""
    spans = []
    for piece, (start, end) in zip(content.split("\n"), lines):
        # Before it are indentation and the marks of lists and quotes.
        index = text.rfind(piece.strip(), start, end)
        if index < 0:
            return []
        spans.append((index, index + len(piece.lstrip())))
    return spans


def _find_cell(text, content, line, position):
    """Returns the (start, end) of a table's cell, in a list."""
    pattern = re.escape(content).replace(r"\|", r"\\?\|")
    found = re.compile(pattern).search(text, max(position, line[0]), line[1])
    return [found.span()] if found else []


def _make_place(text, token, spans, is_cell):
    """Returns the Place of an inline token, whose lines are at `spans`."""
    content = "\n".join(line.lstrip() for line in token.content.split("\n"))
    source_lines = content.split("\n")
    separators = [
        text[end:start] for (_, end), (start, _) in zip(spans, spans[1:])
    ]
    reader = _InlineReader(content)
    segment = Segment(content)
    try:
        reader.read(token.children)
    except ValueError:
        # Markup that is read differently here is that of text.
        reader.raws.clear()
    else:
        html = "".join(reader.parts)
        if reader.raws or "\n" in html or "<" in html or "&" in html:
            segment = Segment(html, "html")

    def encode(translation):
        if segment.markup == "html":
            translation = reader.restore(translation)
        if is_cell:
            return translation.replace("\n", " ").replace("|", r"\|")
        output = []
        for index, line in enumerate(translation.split("\n")):
            if index:
                last = min(index, len(separators)) - 1
                output.append(separators[last] if separators else " ")
            if line not in source_lines:
                line = (
                    _BLOCK_START.sub(r"\1\\", line, count=1)
                    if (_BLOCK_START.match(line))
                    else line
                )
            output.append(line)
        return "".join(output)

    return Place(spans[0][0], spans[-1][1], segment, encode)


class _InlineReader:
    """Writes inline Markdown as HTML, whose tags stand for its marks.

    Attributes:
        parts: list of parts of the HTML.
        raws: dict of tags, and of code, to the characters of Markdown.
    """

    def __init__(self, content):
        self._content, self._position = content, 0
        self._name = "m"
        while re.search(rf"{self._name}\d", content):
            self._name += "m"
        self._open, self._count = [], 0
        self.parts, self.raws = [], {}

    def read(self, tokens):
        """Reads tokens of markdown-it; ValueError if they differ."""
        skipped = False
        for token in tokens:
            kind = token.type
            if skipped:
                # The text of an address in angle brackets.
                skipped = kind != "link_close"
            elif kind == "text":
                self._read_text(token.content)
            elif kind in ("text_special", "html_inline"):
                raw = token.content if kind == "html_inline" else token.markup
                self.parts.append(self._take(re.escape(raw)))
            elif kind == "softbreak":
                self.parts.append(self._take(_SOFT_BREAK))
            elif kind == "hardbreak":
                self._add('<br id="{}">', self._take(_HARD_BREAK))
            elif kind == "code_inline":
                mark = token.markup
                raw = self._take(rf"{mark}(?s:.*?)(?<!`){mark}(?!`)")
                self._add("<code>{}</code>", raw)
            elif kind == "link_open" and token.markup == "autolink":
                self._add("<code>{}</code>", self._take("<[^>]*>"))
                skipped = True
            elif kind == "image" and not token.children:
                raw = self._take(r"!\[") + self._take(_LINK_END)
                self._add("<code>{}</code>", raw)
            elif kind == "image":
                self._start(self._take(r"!\["))
                self.read(token.children)
                self._end(self._take(_LINK_END))
            elif kind == "link_open":
                self._start(self._take(r"\["))
            elif kind == "link_close":
                self._end(self._take(_LINK_END))
            elif token.nesting == 1:
                self._start(self._take(re.escape(token.markup)))
            elif token.nesting == -1:
                self._end(self._take(re.escape(token.markup)))
            else:
                raise ValueError(kind)

    def restore(self, html):
        """Returns the Markdown of HTML."""
        pattern = "|".join(map(re.escape, self.raws)) or r"\Z"
        html = re.sub(pattern, lambda match: self.raws.get(match[0], ""), html)
        return html.replace("&#60;", "<")

    def _take(self, pattern):
        match = re.compile(pattern).match(self._content, self._position)
        if match is None:
            raise ValueError(pattern)
        self._position = match.end()
        return match[0]

    def _read_text(self, text):
        for index, part in enumerate(_FOOTNOTE.split(text)):
            raw = self._take(re.escape(part))
            if index % 2:
                self._add("<code>{}</code>", raw)
            else:
                self.parts.append(raw.replace("<", "&#60;"))

    def _add(self, pattern, raw):
        tag = pattern.format(f"{self._name}{self._count}")
        self._count += 1
        self.raws[tag] = raw
        self.parts.append(tag)

    def _start(self, raw):
        self._open.append(f"{self._name}{self._count}")
        self._add("<{}>", raw)

    def _end(self, raw):
        tag = f"</{self._open.pop()}>"
        self.raws[tag] = raw
        self.parts.append(tag)
