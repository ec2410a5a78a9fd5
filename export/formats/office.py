"""Office files: .docx, .pptx, .xlsx, and .odt, .odp, .ods.

The XML with text in the package is changed; all other members keep their bytes.
"""

import functools
import html
import re
import typing
from collections.abc import Collection

from export.common.errors import InputError
from export.formats.file_format import FileOptions, OpenFile, Segment
from export.formats.office_package import (
    Package,
    Slot,
    has_letters,
    open_members,
    text_slots,
    xml_reader,
)
from export.formats.office_paragraph import Paragraph
from export.formats.office_pieces import (
    get_attribute,
    is_code_style,
    local_name,
)

# Members with text, in reading order.
_OOXML_MEMBERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"word/document\d*\.xml",
        r"word/(?:header|footer|footnotes|endnotes|comments)\d*\.xml",
        r"ppt/slides/[^/]+\.xml",
        r"ppt/(?:notesSlides|comments|slideLayouts|slideMasters)/[^/]+\.xml",
        r"xl/sharedStrings\.xml",
        r"xl/worksheets/[^/]+\.xml",
        r"xl/(?:comments.*|threadedComments/.+|drawings/[^/]+)\.xml",
        r"(?:word|ppt|xl)/(?:charts/chart|diagrams/(?:data|drawing))[^/]*\.xml",
        r"docProps/core\.xml",
    )
)
_ODF_MEMBER = re.compile(r"(?!META-INF/)(?:.+/)?(?:content|styles|meta)\.xml")
# Sheets without these have nothing to translate: they may be large.
_SHEET_TEXT = re.compile(
    b"inlineStr|oddHeader|evenHeader|firstHeader|oddFooter|evenFooter|"
    b"firstFooter|dataValidation|tooltip"
)
# Text that other parts of a workbook refer to.
_FORMULA = re.compile(
    rb"<(?:\w+:)?(?:f|formula\d?|definedName)(?:\s[^>]*)?>([^<]+)<"
    rb"|\s(?:table:formula|table:condition)=\"([^\"]+)\""
)
_FIELD_NAME = re.compile(
    rb"<(?:\w+:)?(?:tableColumn|cacheField)\s[^>]*?\bname=\"([^\"]*)\""
)
_LITERAL = re.compile(r'"((?:[^"]|"")*)"')
# Elements whose text, and whose attributes, are translated.
_OOXML_TEXTS = ("description", "subject", "text", "title")
_ODF_TEXTS = (
    *("desc", "description", "index-title-template", "subject", "title"),
)
_ATTRIBUTES = {
    "cNvPr": ("title", "descr"),
    "docPr": ("title", "descr"),
    "dataValidation": ("promptTitle", "prompt", "errorTitle", "error"),
    "hlinkClick": ("tooltip",),
    "hyperlink": ("tooltip",),
    "shape": ("alt",),
}
_HEADER = re.compile("(?:odd|even|first)(?:Header|Footer)")
# The codes of headers of sheets: fonts, sizes, colours, the page's number.
_HEADER_CODE = re.compile(r"(&(?:\"[^\"]*\"|K[\dA-F+-]{5,6}|\d+|.))")
_CACHES = ("multiLvlStrCache", "strCache", "strLit")


def open_office(content: bytes, options: FileOptions) -> OpenFile:
    """Opens a document, presentation or workbook of OOXML or ODF.

    Paragraphs, notes, comments, headers, footers, text boxes, charts and
    descriptions of pictures are translated; fields, formulas, numbers, code and
    macros stay. Raises InputError for damaged, encrypted and hostile files.
    """
    del options
    package = Package(content, "an office file such as .docx or .odt")
    odf = [name for name in package.names if _ODF_MEMBER.fullmatch(name)]
    if "mimetype" in package.names and "content.xml" in odf:
        return _open_odf(package, odf)
    names = [
        name
        for pattern in _OOXML_MEMBERS
        for name in sorted(package.names, key=_number_key)
        if pattern.fullmatch(name)
    ]
    if not any(name.startswith(("word/", "ppt/", "xl/")) for name in names):
        raise InputError(
            "The zip archive has no document, slides or sheets, expected an "
            "office file such as .docx or .odt: check its name's ending."
        )
    references = _read_references(package)
    readers = {}
    for name in names:
        is_sheet = name.startswith("xl/worksheets/")
        if is_sheet and not _SHEET_TEXT.search(package.read(name)):
            continue
        is_layout = name.startswith(("ppt/slideLayouts", "ppt/slideMasters"))
        readers[name] = xml_reader(
            name,
            functools.partial(
                _find_ooxml, references=references, is_layout=is_layout
            ),
        )
    return open_members(package, readers)


def _open_odf(package, names):
    manifest = "META-INF/manifest.xml"
    if manifest in package.names and b"encryption-data" in package.read(
        manifest
    ):
        raise InputError(
            "The file is encrypted, expected one without a password: save it "
            "again without."
        )
    references: set[str] = set()
    if "spreadsheet" in package.read("mimetype").decode("ascii", "replace"):
        references = _read_references(package)
    find = functools.partial(_find_odf, references=references)
    return open_members(
        package, {name: xml_reader(name, find) for name in names}
    )


def _number_key(name):
    """Returns a key that sorts "slide2" before "slide10"."""
    return [
        int(part) if part.isdigit() else part
        for part in re.split(r"(\d+)", name)
    ]


def _read_references(package):
    """Returns texts of cells that formulas, lists or tables refer to.

    If these were translated, a formula such as =IF(A1="yes",1,0) would have
    another result, and a table would lose its columns.
    """
    texts = set()
    for name in package.names:
        if not re.search(r"xl/.*\.xml|(?:^|/)content\.xml", name):
            continue
        content = package.read(name)
        for match in _FIELD_NAME.findall(content):
            column = html.unescape(match.decode("utf-8", "replace"))
            texts.add(re.sub("_x000[aAdD]_", "\n", column).strip())
        for pair in _FORMULA.findall(content):
            formula = html.unescape(b"".join(pair).decode("utf-8", "replace"))
            for literal in _LITERAL.findall(formula):
                texts |= {literal.replace('""', '"').strip()}
                texts |= {part.strip() for part in literal.split(",")}
    return texts


def _find_ooxml(
    root: typing.Any, references: Collection[str], is_layout: bool
) -> list[Slot]:
    slots: list[Slot] = []
    for element in root.iter("{*}*"):
        name = local_name(element)
        if name in ("p", "si", "is") or (name == "text" and len(element)):
            if not _is_kept_paragraph(element, name, references, is_layout):
                slots += _paragraph_slots(Paragraph(element))
        elif _HEADER.fullmatch(name):
            slots += _header_slots(element)
        elif name in _OOXML_TEXTS or (
            name == "v" and _is_cached_text(element, references)
        ):
            slots += text_slots(element)
        for attribute in _ATTRIBUTES.get(name, ()):
            text = element.get(attribute)
            if has_letters(text):
                replace = functools.partial(element.set, attribute)
                slots.append((Segment(text), replace))
    return slots


def _is_kept_paragraph(element, name, references, is_layout):
    if name != "p":
        return "".join(element.itertext("{*}t")).strip() in references
    for style in element.iterfind("{*}pPr/{*}pStyle"):
        if is_code_style(get_attribute(style, "val")):
            return True
    if not is_layout:
        return False
    # "Click to edit the title", which no slide shows.
    shapes = element.iterancestors("{*}sp")
    return any(
        True for s in shapes for _ in s.iterfind("{*}nvSpPr/{*}nvPr/{*}ph")
    )


def _is_cached_text(element, references):
    """Whether a value of a chart is a text, to which no formula refers."""
    parents = [*zip(element.iterancestors(), range(3))]
    is_text = any(local_name(parent) in _CACHES for parent, _ in parents)
    return is_text and (element.text or "").strip() not in references


def _find_odf(root: typing.Any, references: Collection[str]) -> list[Slot]:
    styles = {
        get_attribute(style, "name"): _find_parent_style(style)
        for style in root.iterfind("{*}automatic-styles/{*}style")
    }
    slots: list[Slot] = []
    for element in root.iter("{*}*"):
        name = local_name(element)
        if name in ("p", "h"):
            style = get_attribute(element, "style-name")
            is_code = is_code_style(styles.get(style, style))
            if not is_code and not _is_kept_odf(element, references):
                slots += _paragraph_slots(Paragraph(element, styles))
        elif name in _ODF_TEXTS:
            slots += text_slots(element)
    return slots


def _find_parent_style(style):
    """Returns the parent of an automatic style, "" if it changes nothing."""
    parent = get_attribute(style, "parent-style-name")
    is_plain = get_attribute(style, "family") == "text" and all(
        key.endswith("rsid")
        for each in style.iter()
        for key in each.attrib
        if each is not style
    )
    return parent if parent or is_plain else get_attribute(style, "name")


def _is_kept_odf(element, references):
    """Whether a paragraph is deleted, or the value of a cell."""
    for parent in element.iterancestors():
        name = local_name(parent)
        if name in ("annotation", "note-body", "text-box"):
            return False
        if name in ("deletion", "tracked-changes"):
            return True
        if name == "table-cell":
            kind = get_attribute(parent, "value-type")
            return (
                kind not in ("", "string")
                or bool(get_attribute(parent, "formula"))
                or "".join(element.itertext()).strip() in references
            )
    return False


def _paragraph_slots(paragraph):
    if paragraph.segment is not None:
        yield paragraph.segment, paragraph.replace


def _header_slots(element):
    """Yields the texts between the codes of a header of a sheet."""
    parts = _HEADER_CODE.split(element.text or "")

    def replace(index, text):
        parts[index] = text.replace("&", "&&")
        element.text = "".join(parts)

    for index in range(0, len(parts), 2):
        if has_letters(parts[index]):
            yield Segment(parts[index]), functools.partial(replace, index)
