"""Office files that are refused: damaged, encrypted, hostile ones."""

import io
import tracemalloc
import zipfile

import pytest

from export.common.errors import InputError
from export.formats.file_format import FileOptions
from export.formats.office import open_office
from tests.export.formats.office_files import docx, run, zip_of


def bomb(size, said=None):
    content = docx("")
    output = io.BytesIO(content)
    with (
        zipfile.ZipFile(output, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/footnotes.xml", "w") as file,
    ):
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    content = output.getvalue()
    if said is not None:
        sizes = (number.to_bytes(4, "little") for number in (size, said))
        content = content.replace(*sizes)
    return content


def encrypted():
    content = bytearray(docx(""))
    for start, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(start) + offset] |= 1
    return bytes(content)


def damaged():
    content = bytearray(docx(f"<w:p>{run('some words ' * 99)}</w:p>"))
    content[content.index(b"word/document.xml") + 40] ^= 255
    return bytes(content)


ENTITY = '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>'
LAUGHS = (
    '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY c "&b;&b;">]>'
    "<a>&c;</a>"
)


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b"Text",
            b"PK\3\4",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99),
        ),
        *(zip_of({"a.txt": "Text"}), docx("<w:p>"), docx("\0")),
        docx("", **{"word/document.xml": ENTITY}),
        docx("", **{"word/document.xml": LAUGHS}),
        docx("", **{"word/document.xml": "<a>" * 100_000}),
        zip_of({"mimetype": "x", "content.xml": ENTITY}),
        zip_of(
            {
                "mimetype": "x",
                "content.xml": "<a/>",
                "META-INF/manifest.xml": "<encryption-data/>",
            }
        ),
        *(encrypted(), damaged(), docx("x" * 99)[:-30]),
        *(bomb(300 << 20), bomb(100 << 20, 1000)),
    ],
    ids=range(17),
)
def test_damaged_encrypted_and_hostile_files_are_refused(content):
    tracemalloc.start()
    try:
        with pytest.raises(InputError):
            open_office(content, FileOptions())
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
