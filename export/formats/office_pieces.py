"""Reads the pieces of paragraphs of office files: texts, links, marks.

OOXML (.docx, .pptx, .xlsx) has runs, `<r><rPr/><t>text</t></r>`; in ODF (.odt
and so on) text stands in the paragraph and in spans.
"""

import copy
import re
import typing
from collections.abc import Iterable, Mapping

from lxml import etree

XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# Elements with text of the sentence: links, changes, controls.
_CONTAINERS = {"a": "a", "hyperlink": "a"} | dict.fromkeys(
    ["bdo", "customXml", "dir", "ins", "meta", "moveTo", "sdt", "smartTag"], "g"
)
# Tags for elements that stay as they are: "br" ends a sentence, "img" separates
# words, "wbr" is not seen. For others, as fields and formulas, "x": words.
_TAGS = {
    name: tag
    for tag, names in {
        "br": "br cr line-break ptab tab",
        "img": "AlternateContent connector custom-shape drawing ellipse "
        "endnoteRef endnoteReference footnoteRef footnoteReference frame g "
        "line note object path pict polygon polyline rect s sym",
        "wbr": "alphabetical-index-mark annotation annotationRef bookmark "
        "change commentReference del delInstrText delText fldChar instrText "
        "moveFrom number reference-mark soft-page-break toc-mark "
        "user-index-mark",
    }.items()
    for name in names.split()
}
# Marks of a program, which are wrong in another language.
DROPPED = ("lastRenderedPageBreak", "phoneticPr", "proofErr", "rPh")
_CHARACTERS = {"noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
# Both ends of bookmarks, comments and index entries.
_RANGE_END = re.compile(r"(.+?)-?([Ss]tart|[Ee]nd)")
_RANGE_LABELS = ("id", "name", "change-id")
# Properties of runs that readers of a text do not see.
_UNSEEN_ELEMENTS = ("lang", "noProof")
_UNSEEN_ATTRIBUTES = (
    *("altLang", "dirty", "err", "hint", "lang", "noProof", "smtClean"),
)
_CODE_STYLE = re.compile(
    "code|verbatim|preformatted|source.{0,4}text|teletype|listing", re.I
)
# A cell's or a slide's line ends within <t>.
_LINE_END = re.compile(r"(\n|_x000[AaBbDd]_)")


class Piece(typing.NamedTuple):
    """A part of a paragraph.

    Attributes:
        tag: "" for text, "a" or "g" for an element with text, or that of an
            element that stays as it is.
        text: of text.
        style: text that is the same for runs of one format.
        run: the run of the text, of ODF the spans around it.
        nodes: elements, each with its run.
        partner: what both ends of a range have in common.
        holder: of an element with text, the one that has the `pieces`.
        pieces: those within it.
    """

    tag: str
    text: str = ""
    style: str = ""
    run: typing.Any = None
    nodes: tuple = ()
    partner: str = ""
    holder: typing.Any = None
    pieces: tuple = ()


def local_name(element: typing.Any) -> str:
    """Returns the name without its namespace, "" for a comment."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def get_attribute(element: typing.Any, name: str) -> str:
    """Returns the attribute of this local name, "" without one."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == name:
            return value
    return ""


def is_drawing(element: typing.Any) -> bool:
    """Whether an element is of slides, charts or pictures of OOXML."""
    return "drawingml" in element.tag.rpartition("}")[0]


def is_code_style(style: str) -> bool:
    """Whether a style's name is that of program code."""
    return bool(_CODE_STYLE.search(style))


def read_pieces(
    element: typing.Any, styles: Mapping[str, str] | None
) -> list[Piece]:
    """Returns the pieces of a paragraph; for `styles` see `Paragraph`."""
    return _join_fields(_Reader(element, styles).read(element, ()))


class _Reader:
    """Reads the pieces of a paragraph."""

    def __init__(self, element, styles):
        self._styles = styles
        self._is_drawing = is_drawing(element)
        self._has_line_ends = self._is_drawing or local_name(element) != "p"

    def read(self, parent, spans):
        """Yields the pieces of a paragraph, container or span."""
        is_odf = self._styles is not None
        if is_odf and parent.text:
            yield self._odf_text(parent.text, spans)
        for child in parent:
            name = local_name(child)
            run = spans if is_odf else None
            if name == "r" and not is_odf:
                yield from self._read_run(child)
            elif name == "t" and not is_odf:
                # The text of a cell without runs.
                yield from self._read_text(child, None, "cell")
            elif name == "span" and is_odf and not self._is_code(child):
                style = get_attribute(child, "style-name")
                is_plain = self._styles.get(style) == ""
                inner = spans if is_plain else (*spans, child)
                yield from self.read(child, inner)
            elif name == "ruby":
                # Without its reading.
                for base in child.iterchildren("{*}ruby-base"):
                    yield from self.read(base, spans)
            elif name in _CONTAINERS:
                holder = next(child.iterchildren("{*}sdtContent"), child)
                pieces = _join_fields(self.read(holder, ()))
                yield Piece(
                    _CONTAINERS[name],
                    nodes=((child, run),),
                    holder=holder,
                    pieces=tuple(pieces),
                )
            elif not name.endswith("Pr") and name not in DROPPED:
                yield _keep(child, name, run)
            if is_odf and child.tail:
                yield self._odf_text(child.tail, spans)

    def _odf_text(self, text, spans):
        names = [get_attribute(span, "style-name") for span in spans]
        return Piece("", text, "/".join(names), spans)

    def _read_run(self, run):
        style = ""
        for child in run:
            name = local_name(child)
            if name == "rPr":
                style = _style_key(child)
                if self._is_code(child):
                    yield Piece("x", nodes=((run, None),))
                    return
            elif name == "t":
                yield from self._read_text(child, run, style)
            elif name in _CHARACTERS:
                character = _CHARACTERS[name]
                yield Piece("", character, style, run, ((child, run),))
            elif name == "ruby":
                for base in child.iterchildren("{*}rubyBase"):
                    yield from self.read(base, ())
            elif name not in DROPPED:
                yield _keep(child, name, run)

    def _read_text(self, element, run, style):
        text = element.text or ""
        if not self._is_drawing and element.get(XML_SPACE) != "preserve":
            # As Office reads it.
            text = text.strip(" \t\r\n")
        parts = _LINE_END.split(text) if self._has_line_ends else [text]
        for index, part in enumerate(parts):
            tag = "br" if index % 2 else ""
            nodes = () if tag else ((element, run),)
            yield Piece(tag, part, style, run, nodes)

    def _is_code(self, element):
        if self._styles is None:
            styles = element.iterchildren("{*}rStyle")
            return any(is_code_style(get_attribute(s, "val")) for s in styles)
        style = get_attribute(element, "style-name")
        return is_code_style(self._styles.get(style, style))


def _keep(element, name, run):
    """Returns the piece of an element that stays as it is."""
    nodes = ((element, run),)
    end = _RANGE_END.fullmatch(name)
    label = next(
        filter(None, (get_attribute(element, a) for a in _RANGE_LABELS)), ""
    )
    if end or (name == "annotation" and label):
        kind, tag = (end[1], end[2]) if end else (name, "start")
        tag = "bx" if tag.lower() == "start" else "ex"
        return Piece(tag, nodes=nodes, partner=f"{kind} {label}")
    return Piece(_TAGS.get(name, "x") if name else "wbr", nodes=nodes)


def _style_key(properties):
    """Returns the same text for the same visible properties."""
    seen = copy.deepcopy(properties)
    seen.tail = None
    for element in [*seen.iter()]:
        if local_name(element) in _UNSEEN_ELEMENTS:
            element.getparent().remove(element)
        for name in [*element.attrib]:
            if name.rpartition("}")[2] in _UNSEEN_ATTRIBUTES:
                del element.attrib[name]
    if not (len(seen) or seen.attrib):
        return ""
    return etree.tostring(seen, method="c14n", exclusive=True).decode()


def _field_part(piece):
    """Returns "begin", "separate" or "end" of a field's mark, else ""."""
    if piece.tag == "wbr" and local_name(piece.nodes[0][0]) == "fldChar":
        return get_attribute(piece.nodes[0][0], "fldCharType")
    return ""


def _join_fields(pieces: Iterable[Piece]) -> list[Piece]:
    """Returns pieces in which a field is one, with its result.

    The text of a hyperlink stays text, as does that of a field which ends in
    another paragraph, such as a table of contents.
    """
    output: list[Piece] = []
    starts: list[int] = []
    for piece in pieces:
        output.append(piece)
        kind = _field_part(piece)
        if kind == "begin":
            starts.append(len(output) - 1)
        elif kind == "end" and starts:
            start = starts.pop()
            field = output[start:]
            kinds = [*map(_field_part, field)]
            divider = kinds.index("separate") if "separate" in kinds else 0
            nodes = [pair for each in field for pair in each.nodes]
            code = "".join(
                node.text or ""
                for node, _ in nodes
                if local_name(node) == "instrText"
            )
            if divider and code.lstrip().upper().startswith("HYPERLINK"):
                before = [
                    n for each in field[: divider + 1] for n in each.nodes
                ]
                partner = f"field {start}"
                output[start:] = [
                    Piece("bx", nodes=tuple(before), partner=partner),
                    *field[divider + 1 : -1],
                    Piece("ex", nodes=piece.nodes, partner=partner),
                ]
            else:
                tag = "x" if divider else "wbr"
                output[start:] = [Piece(tag, nodes=tuple(nodes))]
    return output
