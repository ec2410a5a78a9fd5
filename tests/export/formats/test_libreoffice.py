"""Translated office files that LibreOffice wrote, and reads again."""

import re
import shutil
import subprocess

import pytest

from tests.export.formats.office_files import DECLARATION, ODF, upper

_NAMES = " ".join(
    f'xmlns:{prefix}="{ODF}{name}:1.0"'
    for prefix, name in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("style", "style"),
        ("draw", "drawing"),
        ("svg", "svg-compatible"),
        ("fo", "xsl-fo-compatible"),
        ("presentation", "presentation"),
    )
)
_PARAGRAPH = "<text:p>{}</text:p>".format
_BOLD = '<text:span text:style-name="B">{}</text:span>'.format
_NOTE = (
    '<text:note text:note-class="footnote"><text:note-citation>1'
    f"</text:note-citation><text:note-body>{_PARAGRAPH('A note')}"
    "</text:note-body></text:note>"
)
_ITEM = f"<text:list-item>{_PARAGRAPH('{}')}</text:list-item>".format
_CELL = (
    f'<table:table-cell office:value-type="string">{_PARAGRAPH("{}")}'
    "</table:table-cell>"
).format
_NUMBER = (
    '<table:table-cell office:value-type="float" office:value="12.5">'
    f"{_PARAGRAPH('12.5')}</table:table-cell>"
)
_FRAME = (
    '<draw:frame svg:width="10cm" svg:height="3cm" svg:x="1cm" svg:y="1cm">'
    f"<draw:text-box>{_PARAGRAPH('{}')}</draw:text-box></draw:frame>"
).format
# By the ending of a flat file: its kind, its body, and what it becomes.
_FILES = {
    "fodt": (
        "text",
        '<text:h text:outline-level="1">A heading</text:h>'
        + _PARAGRAPH(f"One {_BOLD('house')} and two.{_NOTE} Another one.")
        + f"<text:list>{_ITEM('First item')}{_ITEM('Second item')}</text:list>"
        + "<table:table><table:table-column/><table:table-row>"
        + f"{_CELL('In a cell')}</table:table-row></table:table>"
        + _PARAGRAPH("Last line<text:line-break/>and more."),
        ("docx", "odt"),
    ),
    "fods": (
        "spreadsheet",
        '<table:table table:name="Sheet"><table:table-row>'
        f"{_CELL('A name')}{_NUMBER}{_CELL('A longer text')}"
        "</table:table-row></table:table>",
        ("xlsx", "ods"),
    ),
    "fodp": (
        "presentation",
        f'<draw:page draw:name="one">{_FRAME("A title")}'
        + _FRAME(f"Some {_BOLD('bold')} words")
        + f"<presentation:notes>{_FRAME('What to say')}</presentation:notes>"
        + "</draw:page>",
        ("pptx", "odp"),
    ),
}


@pytest.mark.skipif(
    not shutil.which("soffice"), reason="LibreOffice is missing"
)
@pytest.mark.parametrize("ending", _FILES)
def test_translated_files_have_the_other_texts_in_the_same_places(
    ending, tmp_path
):
    kind, body, endings = _FILES[ending]
    source = tmp_path / f"source.{ending}"
    source.write_text(
        f"{DECLARATION}<office:document {_NAMES} office:mimetype="
        f'"application/vnd.oasis.opendocument.{kind}" office:version="1.3">'
        '<office:automatic-styles><style:style style:name="B" '
        'style:family="text"><style:text-properties fo:font-weight="bold"/>'
        "</style:style></office:automatic-styles><office:body>"
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document>"
    )
    for each in endings:
        convert([source], each)
        written = source.with_suffix(f".{each}").read_bytes()
        (tmp_path / f"{each}-before.{each}").write_bytes(written)
        (tmp_path / f"{each}-after.{each}").write_bytes(upper(written, each))
    convert(tmp_path.glob("*-*.*"), ending)
    expected = {*find_texts(source)}
    for each in endings:
        before, after = (
            find_texts(tmp_path / f"{each}-{name}.{ending}")
            for name in ("before", "after")
        )
        assert expected <= {*before}
        assert after == [
            text.swapcase() if text in expected else text for text in before
        ]


def convert(paths, ending):
    folder = next(iter(paths := [*paths])).parent
    subprocess.run(
        [
            "soffice",
            "--headless",
            f"-env:UserInstallation={(folder / 'profile').as_uri()}",
            "--convert-to",
            ending,
            *(path.name for path in paths),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=120,
    )


def find_texts(path):
    """Returns the texts of a flat file's body, without marks of its fields."""
    _, body = path.read_text("utf-8").split("<office:body>")
    return [each for each in re.findall(">([^<]+)<", body) if each.strip()]
