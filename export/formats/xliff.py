"""XLIFF 1.2 and 2.x: sources are translated to targets; elements of XML."""

import dataclasses
import html
import itertools
import re
from collections.abc import Callable
from xml.parsers import expat
from xml.sax import saxutils

from export.common.errors import InputError
from export.documents.scanner import validate_xml
from export.formats.file_format import (
    FileOptions,
    OpenFile,
    Segment,
    value_segment,
)
from export.formats.files import Place, splice
from export.lines.file_formats import decode_document

_START_TAG = re.compile(r"""<[^\s/>]+(?:[^<>"']|"[^"]*"|'[^']*')*>""")
_ENCODING = re.compile(r"""\s*<\?xml\s[^>]*?encoding=["']([^"']+)""")
# States of targets whose text is that of the source.
_UNTRANSLATED = ("initial", "needs-translation", "new")
_WRAPPER = "<xliff><source>", "</source></xliff>"


@dataclasses.dataclass
class Element:
    """An element of XML; indices are those of characters.

    Attributes:
        prefix: prefix of its name, with the colon, or "".
        name: without its prefix.
        attributes: dict of names to values.
        parent: the element around it, None for the root.
        start: index of the start tag.
        content: index after the start tag.
        content_end: index of the end tag.
        end: index after the end tag.
        children: elements in it.
    """

    prefix: str
    name: str
    attributes: dict[str, str]
    parent: "Element | None"
    start: int
    content: int
    content_end: int = 0
    end: int = 0
    children: "list[Element]" = dataclasses.field(default_factory=list)

    def find_attribute(self, name: str) -> str | None:
        """Returns an attribute of the element, or the nearest around it."""
        element: Element | None = self
        while element is not None:
            if name in element.attributes:
                return element.attributes[name]
            element = element.parent
        return None

    def child(self, name: str) -> "Element | None":
        """Returns the first child of a name, or None."""
        return next((each for each in self.children if each.name == name), None)


def parse_elements(content: bytes, root: str) -> tuple[str, list[Element]]:
    """Returns the text of XML and its elements, in the order of start tags.

    Entities are not expanded. Raises InputError unless it is well-formed UTF-8
    with a root element of this name.
    """
    text = decode_document(content)
    encoding = _ENCODING.match(text.removeprefix("\ufeff"))
    if encoding and encoding[1].lower() not in ("utf-8", "us-ascii"):
        raise InputError(
            f"The file says that it is {encoding[1]}: convert it to UTF-8."
        )
    validate_xml(text)
    elements: list[Element] = []
    stack: list[Element] = []
    encoded = text.encode("utf-8")
    parser = expat.ParserCreate("utf-8")
    position = [0, 0]

    def index():
        # Bytes to characters: indices only grow.
        byte, character = position
        new = parser.CurrentByteIndex
        position[:] = new, character + len(encoded[byte:new].decode("utf-8"))
        return position[1]

    def start(name, attributes):
        begin = index()
        tag = _START_TAG.match(text, begin)
        parent = stack[-1] if stack else None
        prefix, colon, local = name.rpartition(":")
        element = Element(
            prefix + colon, local, attributes, parent, begin, tag.end()
        )
        elements.append(element)
        stack.append(element)
        if parent is not None:
            parent.children.append(element)

    def end(name):
        del name
        element = stack.pop()
        if text[element.content - 2] == "/":
            element.content_end = element.end = element.content
        else:
            element.content_end = index()
            element.end = text.index(">", element.content_end) + 1

    parser.StartElementHandler, parser.EndElementHandler = start, end
    # With it, internal entities stay as they are.
    parser.DefaultHandler = lambda data: None
    parser.Parse(encoded, True)
    if elements[0].name != root:
        raise InputError(
            f"The root element is <{elements[0].name}>, expected <{root}>: "
            "give --format with the file's format."
        )
    return text, elements


def markup_segment(
    content: str, wrapper: tuple[str, str]
) -> tuple[Segment, Callable[[str], str]]:
    """Returns the Segment of an element's content, and its inverse.

    Content with markup is put between the tags of `wrapper`, by which
    translate_documents finds the dialect. The second function takes the
    translation and returns content.
    """
    if "<" not in content:
        value = value_segment(html.unescape(content))
        if value.markup == "html" or not re.search(r"[>&\r\n\t]", content):
            return value, saxutils.escape
    start, end = wrapper
    return (
        Segment(f"{start}{content}{end}", "xml"),
        lambda text: text[len(start) : -len(end)],
    )


def open_xliff(content: bytes, options: FileOptions) -> OpenFile:
    """Opens XLIFF: a target is made for each source that has none.

    The state of such a target is `needs-review-translation`, or `translated`
    in 2.x. Raises InputError for other XML.
    """
    text, elements = parse_elements(content, "xliff")
    is_1 = elements[0].attributes.get("version", "").startswith("1")
    places: list[Place] = []
    edits = []

    def edit_tag(element, name, value):
        start, end = element.start, element.content
        return start, end, _set_attribute(text[start:end], name, value)

    for unit in elements:
        if unit.name != ("trans-unit" if is_1 else "segment"):
            continue
        source, target = unit.child("source"), unit.child("target")
        if source is None or unit.find_attribute("translate") == "no":
            continue
        state = unit.attributes.get("state")
        old = None
        if target is not None:
            state = target.attributes.get("state", state)
            old = text[target.content : target.content_end]
        is_finished = bool(old and old.strip()) and state not in _UNTRANSLATED
        is_blank = not text[source.content : source.content_end].strip()
        if is_blank or (is_finished and not options.all_units):
            continue
        places += _target_places(text, unit, is_1)
        if not is_1 and not is_finished:
            edits.append(edit_tag(unit, "state", "translated"))
    if places and options.target_language:
        name, owner = (
            ("target-language", "file") if is_1 else ("trgLang", "xliff")
        )
        edits += [
            edit_tag(each, name, options.target_language)
            for each in elements
            if each.name == owner and name not in each.attributes
        ]
    return splice(text, places, edits)


def _target_places(text, unit, is_1):
    """Returns the Places of the parts of a unit's target."""
    source, target = unit.child("source"), unit.child("target")
    template = unit.child("seg-source") or source
    parts = [*_find_segments(template)] or [template]
    name = f"{source.prefix}target"
    if target is None:
        # On a line of its own, if the source is.
        line = text.rfind("\n", 0, source.start)
        line -= text[line - 1 : line] == "\r"
        margin = text[max(line, 0) : source.start]
        start = end = template.end
        tag, current = f"<{name}>", ""
        before = margin if margin.isspace() else ""
    else:
        start, end, before = target.start, target.end, ""
        tag = re.sub(r"\s*/?>\Z", ">", text[start : target.content])
        current = text[target.content : target.content_end]
        current = markup_segment(current, _WRAPPER)[0].text
    if is_1:
        tag = _set_attribute(tag, "state", "needs-review-translation")
        tag = _set_attribute(tag, "state-qualifier", "leveraged-mt")
    # What is between the parts stays.
    bounds = [template.content]
    for part in parts:
        bounds += part.content, part.content_end
    bounds.append(template.content_end)
    gaps = [text[a:b] for a, b in zip(bounds[::2], bounds[1::2])]
    gaps[0] = before + tag + gaps[0]
    gaps[-1] += f"</{name}>"
    if len(parts) > 1:
        current = ""

    def place(index, part):
        content = text[part.content : part.content_end]
        segment, decode = markup_segment(content, _WRAPPER)
        last = gaps[-1] if index == len(parts) - 1 else ""

        def encode(translation):
            return gaps[index] + decode(translation) + last

        begin = end if index else start
        return Place(begin, end, segment, encode, current)

    return [*itertools.starmap(place, enumerate(parts))]


def _find_segments(element):
    """Yields the elements <mrk mtype="seg"> in an element."""
    stack = [element]
    while stack:
        each = stack.pop()
        if each.name == "mrk" and each.attributes.get("mtype") == "seg":
            yield each
        else:
            stack += each.children[::-1]


def _set_attribute(tag, name, value):
    """Returns a start tag with an attribute."""
    new = f" {name}={saxutils.quoteattr(value)}"
    old = rf"""\s{name}\s*=\s*(?:"[^"]*"|'[^']*')"""
    tag, count = re.subn(old, lambda match: new, tag, count=1)
    return tag if count else re.sub(r"(\s*/?>)\Z", rf"{new}\1", tag)
