"""Paragraphs of office files as markup, and back.

A paragraph becomes `<html>Some <g id="0">bold</g> text<img id="1"/></html>`,
without a tag around the most frequent format: the engine for documents knows
the roles of these HTML tags and puts them around the aligned words.
"""

import collections
import copy
import typing
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from export.common.errors import InputError
from export.formats.file_format import Segment
from export.formats.office_pieces import (
    DROPPED,
    XML_SPACE,
    Piece,
    is_drawing,
    local_name,
    read_pieces,
)


class Paragraph:
    """A paragraph and its Segment, which is None without letters.

    Args:
        element: a `p` or `h`, or an `si`, `is` or `text` of a sheet.
        styles: of ODF, the parents of automatic styles, "" for a style that
            changes nothing; None for OOXML.
    """

    def __init__(
        self, element: typing.Any, styles: Mapping[str, str] | None = None
    ):
        self._element, self._styles = element, styles
        self._namespace = element.tag.rpartition("}")[0] + "}"
        # What the ids of the markup mean, and the first run of the most
        # frequent format in the paragraph and in each container.
        self._parts: list[Piece] = []
        self._bases: dict[typing.Any, Piece] = {}
        # The last text that was written: its parent, style and element.
        self._last: tuple = (None, "", None)
        pieces = read_pieces(element, styles)
        self.segment: Segment | None = None
        if _has_letters(pieces):
            text = f"<html>{self._mark(element, pieces)}</html>"
            self.segment = Segment(text, "xml")

    def replace(self, text: str) -> None:
        """Writes a translation of the Segment into the paragraph.

        Elements that it lacks are put at the end. Raises InputError for text
        that is no markup with the ids of the Segment.
        """
        # Elements of the source may cross, and so do those of its translation.
        parser = etree.XMLParser(resolve_entities=False, recover=True)
        try:
            root = etree.fromstring(text.encode(), parser)
            kinds = {error.type_name for error in parser.error_log}
            if root is None or kinds - {"ERR_TAG_NAME_MISMATCH"}:
                raise ValueError("not well-formed")
            used = {int(each.get("id")) for each in root.iterdescendants()}
            missing = {*range(len(self._parts))} - used
            if len(used) + len(missing) > len(self._parts):
                raise ValueError("unknown id")
        except (etree.XMLSyntaxError, TypeError, ValueError):
            raise InputError(
                f"The translation of a paragraph is {text[:60]!r}, expected "
                "XML with elements of the source: translate it again, without "
                "a memory of other texts."
            ) from None
        last = [*self._element.iterchildren("{*}endParaRPr")]
        self._last = (None, "", None)
        for holder in self._bases:
            _clear(holder)
        self._fill(self._element, root, self._bases[self._element])
        for part in [self._parts[number] for number in sorted(missing)]:
            if part.tag not in ("a", "g"):
                self._append(self._element, part)
        self._element.extend(last)

    def _mark(self, holder, pieces):
        """Returns the markup of the pieces in a paragraph or container."""
        counts: dict[str, int] = collections.Counter()
        for piece in pieces:
            if not piece.tag:
                counts[piece.style] += len(piece.text.strip())
        base_style = max(counts, key=counts.__getitem__, default="")
        texts = [p for p in pieces if not p.tag and p.style == base_style]
        self._bases[holder] = texts[0] if texts else Piece("", run=())
        output: list[str] = []
        # Marks that follow the last text, within its tag or after it.
        waiting: list[str] = []
        current = base_style

        def switch(style, piece=None):
            nonlocal current
            if style == current:
                output.extend(waiting)
            else:
                end = "" if current == base_style else "</g>"
                output.extend([end, *waiting])
                if style != base_style:
                    part = Piece("g", style=style, run=piece.run)
                    output.append(f'<g id="{self._add(part)}">')
                current = style
            waiting.clear()

        for piece in pieces:
            if not piece.tag:
                if piece.text:
                    switch(piece.style, piece)
                    output.append(escape(piece.text))
            elif piece.tag in ("a", "g"):
                switch(base_style)
                number = self._add(piece)
                inside = self._mark(piece.holder, piece.pieces)
                output += f'<{piece.tag} id="{number}">', inside
                output.append(f"</{piece.tag}>")
            else:
                if piece.tag in ("br", "bx", "ex"):
                    # None is within the tag of another format.
                    switch(base_style)
                rid = (
                    f" rid={quoteattr(piece.partner)}" if piece.partner else ""
                )
                waiting.append(f'<{piece.tag} id="{self._add(piece)}"{rid}/>')
        switch(base_style)
        return "".join(output)

    def _add(self, piece):
        self._parts.append(piece)
        return len(self._parts) - 1

    def _fill(self, holder, element, base):
        """Appends the content of an element of the markup, in runs as `base`.

        `holder` is the paragraph or a container.
        """
        self._append_text(holder, element.text, base)
        for child in element:
            part = self._parts[int(child.get("id"))]
            if part.tag == "g" and part.holder is None:
                self._fill(holder, child, part)
            elif part.tag in ("a", "g"):
                self._append(holder, part)
                self._fill(part.holder, child, self._bases[part.holder])
            else:
                self._append(holder, part)
                self._fill(holder, child, base)
            self._append_text(holder, child.tail, base)

    def _append(self, holder, part):
        """Appends elements, each in a run as it was."""
        if not part.nodes:
            # The end of a line within <t>.
            self._append_text(holder, part.text, part)
        for node, run in part.nodes:
            self._last = (None, "", None)
            node.tail = None
            self._make_run(holder, run).append(node)

    def _append_text(self, holder, text, piece):
        if not text:
            return
        if self._styles is not None and not piece.run:
            self._last = (None, "", None)
            if len(holder):
                holder[-1].tail = (holder[-1].tail or "") + text
            else:
                holder.text = (holder.text or "") + text
            return
        last_holder, style, element = self._last
        if last_holder is not holder or style != piece.style:
            element = self._make_run(holder, piece.run)
            if self._styles is None:
                element = etree.SubElement(element, f"{self._namespace}t")
            self._last = (holder, piece.style, element)
        element.text = (element.text or "") + text
        if self._styles is None and not is_drawing(self._element):
            element.set(XML_SPACE, "preserve")

    def _make_run(self, holder, run):
        """Returns a new run, or the innermost of new spans, in the holder."""
        if self._styles is not None:
            for span in run or ():
                holder = etree.SubElement(holder, span.tag, span.attrib)
        elif run is not None and run != ():
            holder = etree.SubElement(holder, run.tag)
            for properties in run.iterchildren("{*}rPr"):
                holder.append(copy.deepcopy(properties))
        return holder


def _has_letters(pieces: Iterable[Piece]) -> bool:
    return any(
        any(map(str.isalpha, piece.text)) or _has_letters(piece.pieces)
        for piece in pieces
    )


def _clear(holder):
    """Removes the text of an element, and all but its properties."""
    if holder.text is not None:
        holder.text = None
    for child in [*holder]:
        name = local_name(child)
        if not name.endswith("Pr") or name in DROPPED:
            holder.remove(child)
