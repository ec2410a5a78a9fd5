"""E-books: pages, titles, languages, and what is refused."""

import pytest
from hypothesis import strategies as st

from export.common.errors import InputError
from export.formats.epub import open_epub
from export.formats.file_format import FileOptions
from export.formats.files import translate_file
from tests.export.documents.made_up import RuleTranslator, invert_case, keep
from tests.export.formats.office_files import part, unzip, zip_of
from tests.export.formats.round_trip import COUNTS, on_documents, words

CONTAINER = (
    '<container xmlns="urn:container"><rootfiles><rootfile '
    'full-path="OEBPS/book.opf"/></rootfiles></container>'
)
BOOK = (
    '<?xml version="1.0"?>\n<package xmlns="http://www.idpf.org/2007/opf" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
    "<dc:title>{}</dc:title><dc:creator>A. Writer</dc:creator>"
    "<dc:language>{}</dc:language><dc:description>{}</dc:description>"
    '</metadata><manifest><item id="ncx" href="toc.ncx" '
    'media-type="application/x-dtbncx+xml"/>'
    '<item id="p2" href="text/page%202.xhtml" '
    'media-type="application/xhtml+xml"/>'
    '<item id="p1" href="text/page1.xhtml" '
    'media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="p1"/><itemref idref="p2"/></spine></package>'
).format
CONTENTS = (
    '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "ncx-2005-1.dtd">\n'
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>{}'
    "</text></docTitle><docAuthor><text>A. Writer</text></docAuthor><navPoint>"
    '<navLabel><text>{}</text></navLabel><content src="a"/></navPoint></ncx>'
).format
PAGE = (
    '<?xml version="1.0" encoding="{}"?>\r\n<!DOCTYPE html>\n'
    '<html xmlns="http://www.w3.org/1999/xhtml" lang="{}" xml:lang="{}"><body>'
    '<p title="b">{} <b>{}</b><img src="a.png" alt="{}"/>&#160;&#8212;</p>'
    "</body></html>"
).format


def epub(title="The house", text="Some text", encoding="utf-8", **members):
    page = PAGE(encoding, "en", "en", text, "bold", "A cat")
    return zip_of(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER,
            "OEBPS/text/page 2.xhtml": PAGE(
                "utf-8", "en", "en", text, text, ""
            ),
            "OEBPS/text/page1.xhtml": page.encode(encoding),
            "OEBPS/book.opf": BOOK(title, "en", "&lt;p>Old tale&lt;/p>"),
            "OEBPS/toc.ncx": CONTENTS(title, "First part"),
            "OEBPS/a.png": b"\x89PNG",
        }
        | members
    )


def upper(content, **options):
    translator = RuleTranslator(invert_case)
    return translate_file(translator, content, "epub", FileOptions(**options))


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
def test_pages_titles_and_languages(encoding):
    content = epub(text="Été, text", encoding=encoding)
    found = upper(content, target_language="fra_Latn")
    page = {name: data for name, _, data in unzip(found)}
    assert page["OEBPS/text/page1.xhtml"].decode(encoding) == PAGE(
        *(encoding, "fra-Latn", "fra-Latn", "éTÉ, TEXT", "BOLD", "a CAT")
    )
    assert (
        part(found, "OEBPS/book.opf").partition("\n")[2]
        == (
            BOOK("tHE HOUSE", "fra-Latn", "&lt;p&gt;oLD TALE&lt;/p&gt;")
        ).partition("\n")[2]
    )
    assert part(found, "OEBPS/toc.ncx").endswith(
        CONTENTS("tHE HOUSE", "fIRST PART").partition("\n")[2]
    )
    for before, after in zip(unzip(content), unzip(found), strict=True):
        assert before[:2] == after[:2]
        is_text = before[0].endswith(("xhtml", "opf", "ncx"))
        assert (before[2] != after[2]) == is_text
    # The order of pages is that of reading; other languages are unknown.
    texts = [each.text for each in open_epub(content, FileOptions()).segments]
    assert "bold" in texts[2] and "bold" not in texts[-1]
    assert "<dc:language>en<" in part(upper(content), "OEBPS/book.opf")


@COUNTS
def test_books_keep_their_bytes(count):
    def check(texts):
        content = epub(*(text.replace("&", "&amp;") for text in texts))
        file = open_epub(content, FileOptions(target_language="fr"))
        assert file.write([each.text for each in file.segments]) == content
        options = FileOptions(target_language="fr")
        translator = RuleTranslator(keep)
        assert translate_file(translator, content, "epub", options) == content

    on_documents(st.tuples(words, words), count, check)


def test_a_page_with_errors_is_read_as_html():
    page = "<html><body><p>One<br>two &nbsp; three</body></html>"
    content = epub(**{"OEBPS/text/page1.xhtml": page})
    expected = page.replace("One", "oNE").replace("two", "TWO")
    assert part(upper(content), "OEBPS/text/page1.xhtml") == expected.replace(
        "three", "THREE"
    )


@pytest.mark.parametrize(
    "members",
    [
        {"META-INF/container.xml": "<container/>"},
        {"META-INF/container.xml": "<container>"},
        {"META-INF/container.xml": CONTAINER.replace("book", "other")},
        {"OEBPS/book.opf": "<package/>"},
        {"OEBPS/text/page1.xhtml": b"\xff\xff"},
        {
            "META-INF/encryption.xml": "<a><CipherReference "
            'URI="OEBPS/text/page%202.xhtml"/></a>'
        },
    ],
)
def test_damaged_and_protected_books_are_refused(members):
    with pytest.raises(InputError):
        open_epub(epub(**members), FileOptions())
    with pytest.raises(InputError):
        open_epub(zip_of({"a.txt": "x"}), FileOptions())
