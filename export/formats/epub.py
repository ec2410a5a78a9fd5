"""E-books: .epub.

Pages of XHTML are translated as documents, with the titles of the table of
contents, the book's title and description, and descriptions of pictures.
"""

import functools
import html
import posixpath
import re
import typing
import urllib.parse

from export.common.errors import InputError
from export.documents.scanner import validate_xml
from export.formats.file_format import FileOptions, OpenFile, Segment
from export.formats.office_package import (
    Package,
    Slot,
    has_letters,
    open_members,
    parse_xml,
    text_slots,
    xml_reader,
)

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# Not "punycode" and others of Python.
_DECLARED_ENCODING = re.compile(
    rb"<\?xml[^>]*?encoding=[\"']"
    rb"((?i:utf|iso-|windows-|us-ascii|shift|euc|gb|big5|koi8)[\w.-]*)[\"']"
)
_ROOT = re.compile(r"<html\b[^>]*>")
_LANGUAGE = re.compile(r"(\s(?:xml:)?lang\s*=\s*[\"'])[^\"']*")
_BOOK_LANGUAGE = re.compile(rb"(<(?:\w+:)?language\b[^>]*>)[^<]*")
_PICTURE_TEXT = re.compile(r"(?<=\salt=\")[^\"]*(?=\"[^<>]{0,2000}>)")


def open_epub(content: bytes, options: FileOptions) -> OpenFile:
    """Opens an e-book.

    The language that it states becomes the `target_language`, if known. Raises
    InputError for damaged and hostile files, and for books whose pages are
    encrypted.
    """
    package = Package(content, "an e-book (.epub)")
    container = parse_xml(package.read(_CONTAINER), _CONTAINER)
    language = (options.target_language or "").replace("_", "-")
    read_page = functools.partial(_read_page, language=language)
    books = [
        root.get("full-path", "") for root in container.iter("{*}rootfile")
    ]
    readers: dict[str, typing.Any] = {}
    pages = []
    for book in books:
        readers[book] = xml_reader(book, _find_metadata)
        for path, kind in _list_files(package, book):
            if kind == "application/x-dtbncx+xml":
                readers[path] = xml_reader(path, _find_titles)
            elif kind == "application/xhtml+xml":
                readers[path] = functools.partial(read_page, path)
                pages.append(path)
    if not pages:
        raise InputError(
            "The zip archive has no pages of XHTML, expected an e-book "
            "(.epub): check whether its name has the right ending."
        )
    if _ENCRYPTION in package.names:
        root = parse_xml(package.read(_ENCRYPTION), _ENCRYPTION)
        for reference in root.iter("{*}CipherReference"):
            if urllib.parse.unquote(reference.get("URI", "")) in pages:
                raise InputError(
                    "The pages of the e-book are encrypted, expected a book "
                    "without protection against copying: take another file."
                )

    def set_language(members):
        for book in books if language else ():
            content = members.get(book) or package.read(book)
            members[book] = _BOOK_LANGUAGE.sub(
                lambda match: match[1] + language.encode(), content, count=1
            )

    return open_members(package, readers, set_language)


def _list_files(package, book):
    """Returns (path, media type) of the files of a book, as they are read."""
    root = parse_xml(package.read(book), book)
    items = {
        each.get("id"): each for each in root.iterfind("{*}manifest/{*}item")
    }
    spine = [each.get("idref") for each in root.iterfind("{*}spine/{*}itemref")]
    files = {}
    for name in [*spine, *items]:
        if name in items:
            href = urllib.parse.unquote(items[name].get("href", ""))
            path = posixpath.join(posixpath.dirname(book), href)
            files[posixpath.normpath(path)] = items[name].get("media-type")
    return [each for each in files.items() if each[0] in package.names]


def _find_metadata(root: typing.Any) -> list[Slot]:
    slots: list[Slot] = []
    for name in ("title", "description"):
        for element in root.iterfind(f"{{*}}metadata/{{*}}{name}"):
            slots += text_slots(element)
    return slots


def _find_titles(root: typing.Any) -> list[Slot]:
    slots: list[Slot] = []
    for element in root.iter("{*}text"):
        # Names of authors stay.
        if not element.getparent().tag.endswith("docAuthor"):
            slots += text_slots(element)
    return slots


def _read_page(name, content, texts, language):
    """Reads a page as a MemberReader: its document, texts of pictures."""
    declared = _DECLARED_ENCODING.match(content)
    encoding = declared[1].decode() if declared else "utf-8"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16-le" if content[0] == 0xFF else "utf-16-be"
    try:
        page = content.decode(encoding)
    except (LookupError, ValueError):
        raise InputError(
            f"The page {name} of the e-book is not in {encoding}, as it says: "
            "save it again with the program that it is from."
        ) from None
    try:
        validate_xml(page)
        markup = "xml"
    except InputError:
        # As programs that show it do.
        markup = "html"
    raws = [*dict.fromkeys(_PICTURE_TEXT.findall(page))]
    raws = [raw for raw in raws if has_letters(html.unescape(raw))]
    segments = [
        Segment(page, markup),
        *(Segment(html.unescape(raw)) for raw in raws),
    ]
    if texts is None:
        return segments, None
    output = texts[0]
    new = {raw: html.escape(text) for raw, text in zip(raws, texts[1:])}
    output = _PICTURE_TEXT.sub(
        lambda match: new.get(match[0], match[0]), output
    )
    if language:
        output = _ROOT.sub(
            lambda match: _LANGUAGE.sub(
                lambda attribute: attribute[1] + language, match[0]
            ),
            output,
            count=1,
        )
    return segments, output.encode(encoding, "xmlcharrefreplace")
