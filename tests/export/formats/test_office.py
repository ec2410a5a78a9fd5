"""Office files: what is translated, where formats go, and what is refused."""

import zipfile

import pytest

from export.common.errors import InputError
from export.formats.file_format import FileOptions
from export.formats.office import open_office
from tests.export.formats.office_files import (
    BOX,
    CONTROL,
    DELETED,
    FOOTNOTE,
    FORMULA,
    INSERTED,
    LINK,
    MARK,
    RTL,
    A,
    W,
    X,
    docx,
    field,
    odf,
    part,
    run,
    unzip,
    upper,
    zip_of,
)

CODE = '<w:pPr><w:pStyle w:val="SourceCode"/></w:pPr>' + run("print(x)")
CALL = run("main", '<w:rStyle w:val="HTMLCode"/>')
# Contents of paragraphs, and the same as they are translated, with capitals for
# small letters and the other way round.
PARAGRAPHS = [
    # Split in a word, with properties that are not seen.
    (
        run("Hel")
        + '<w:proofErr w:type="spellStart"/>'
        + run("lo", '<w:lang w:val="en-US"/>')
        + run(" big ")
        + run("old", "<w:b/>")
        + run(" world."),
        run("hELLO BIG ") + run("OLD", "<w:b/>") + run(" WORLD."),
    ),
    (
        RTL + MARK("Start") + run("See it") + MARK("End") + FOOTNOTE + run("."),
        RTL + MARK("Start") + run("sEE IT") + MARK("End") + FOOTNOTE + run("."),
    ),
    (
        run("Page ") + field("PAGE", run("three")) + run(" of it"),
        run("pAGE ") + field("PAGE", run("three")) + run(" OF IT"),
    ),
    (
        run("See ") + field(' HYPERLINK "a"', run("this")) + run(" too"),
        run("sEE ") + field(' HYPERLINK "a"', run("THIS")) + run(" TOO"),
    ),
    (
        run("Let ") + FORMULA + run(" be one."),
        run("lET ") + FORMULA + run(" BE ONE."),
    ),
    (
        run("Go ") + LINK(run("home")) + INSERTED(run(" now")) + DELETED,
        run("gO ")
        + LINK(run("HOME"))
        + run(" ")
        + INSERTED(run("NOW"))
        + DELETED,
    ),
    # Tabs and line breaks end a sentence.
    (
        "<w:r><w:t>Left</w:t><w:tab/><w:t>right</w:t></w:r>",
        run("lEFT") + "<w:r><w:tab/></w:r>" + run("RIGHT"),
    ),
    (
        BOX("A house", run("Inner"), run("Outer")),
        BOX("a HOUSE", run("iNNER"), run("oUTER")),
    ),
    (CONTROL(run("Name")), CONTROL(run("nAME"))),
    # Numbers and code stay, and with them what is dropped elsewhere.
    (run("12.5") + "<w:proofErr/>", run("12.5") + "<w:proofErr/>"),
    (CODE, CODE),
    (run("Call ") + CALL + run(" now"), run("cALL ") + CALL + run(" NOW")),
]


@pytest.mark.parametrize(("source", "expected"), PARAGRAPHS)
def test_paragraphs_of_documents(source, expected):
    found = upper(docx(f"<w:p>{source}</w:p>"))
    expected = f"<w:body><w:p>{expected}</w:p></w:body>"
    assert expected in part(found, "word/document.xml")


def test_other_members_of_documents_stay_and_parts_are_translated():
    notes = (
        f'<w:footnotes xmlns:w="{W}"><w:p>{run("A note")}</w:p></w:footnotes>'
    )
    chart = (
        f'<c:chart xmlns:c="urn:c" xmlns:a="{A}"><a:p><a:r><a:t>Sales</a:t>'
        "</a:r></a:p><c:strCache><c:pt><c:v>North</c:v></c:pt></c:strCache>"
        "<c:numCache><c:formatCode>General</c:formatCode></c:numCache></c:chart>"
    )
    source = docx(
        f"<w:p>{run('Text')}</w:p>",
        **{
            "word/footnotes.xml": notes,
            "word/charts/chart1.xml": chart,
            "word/embeddings/book.xlsx": zip_of(
                {"xl/sharedStrings.xml": "<a/>"}
            ),
        },
    )
    found = upper(source)
    changed = {
        "word/document.xml",
        "word/footnotes.xml",
        "word/charts/chart1.xml",
    }
    for before, after in zip(unzip(source), unzip(found), strict=True):
        assert before[:2] == after[:2]
        assert (before[2] != after[2]) == (before[0] in changed)
    assert "A note".swapcase() in part(found, "word/footnotes.xml")
    expected = chart.replace("Sales", "sALES").replace("North", "nORTH")
    assert part(found, "word/charts/chart1.xml").endswith(expected)


def test_slides_keep_the_order_of_properties():
    kept = (
        '<a:br/><a:fld type="slidenum"><a:t>one</a:t></a:fld>'
        '<a:endParaRPr lang="en"/></a:p>'
    )
    body = (
        '<a:p><a:pPr rtl="1"/><a:r><a:rPr lang="en" b="1"/><a:t>Big</a:t></a:r>'
        '<a:r><a:rPr lang="de" b="1" dirty="0"/><a:t>ger day</a:t></a:r>' + kept
    )
    holder = (
        '<p:sp xmlns:p="urn:p"><p:nvSpPr><p:nvPr><p:ph/></p:nvPr></p:nvSpPr>'
        "{}</p:sp>"
    )
    slide = f'<sld xmlns:a="{A}">{holder.format(body)}</sld>'
    names = "ppt/slides/slide1.xml", "ppt/slideLayouts/slideLayout1.xml"
    found = upper(zip_of(dict.fromkeys(names, slide)), "pptx")
    expected = (
        '<a:p><a:pPr rtl="1"/><a:r><a:rPr lang="en" b="1"/>'
        f"<a:t>bIGGER DAY</a:t></a:r>{kept}"
    )
    assert expected in part(found, names[0])
    # "Click to edit" of a layout is in no slide.
    assert part(found, names[1]) == slide


def test_workbooks_keep_what_formulas_and_tables_refer_to():
    strings = (
        f'<sst xmlns="{X}"><si><t>Cheap house</t></si><si><r><rPr><b/></rPr>'
        "<t>Bold</t></r><r><t>ly\nnew</t></r><rPh><t>x</t></rPh></si>"
        "<si><t>Price</t></si><si><t>yes</t></si><si><t>low</t></si></sst>"
    )
    sheet = (
        f'<worksheet xmlns="{X}"><c t="inlineStr"><is><t>Inline</t></is></c>'
        '<c t="str"><f>IF(A1="yes","a","b")</f><v>text</v></c>'
        '<dataValidation prompt="Choose"><formula1>"low,high"</formula1>'
        "</dataValidation><oddFooter>&amp;LPage &amp;P&amp;R"
        '&amp;"Arial"Mine</oddFooter>'
        "</worksheet>"
    )
    comment = (
        f'<comments xmlns="{X}"><text><r><t>Look here</t></r></text></comments>'
    )
    table = f'<table xmlns="{X}"><tableColumn id="1" name="Price"/></table>'
    members = {
        "xl/workbook.xml": "<workbook/>",
        "xl/sharedStrings.xml": strings,
        "xl/worksheets/sheet1.xml": sheet,
        "xl/tables/table1.xml": table,
        "xl/comments/comment1.xml": comment,
    }
    found = upper(zip_of(members), "xlsx")
    space = 'xml:space="preserve"'
    assert part(found, "xl/sharedStrings.xml").endswith(
        f"<si><t {space}>cHEAP HOUSE</t></si><si><r><rPr><b/></rPr>"
        f"<t {space}>bOLDLY</t></r><r><t {space}>\nNEW</t></r></si>"
        "<si><t>Price</t></si><si><t>yes</t></si><si><t>low</t></si></sst>"
    )
    sheet = sheet.replace(">Inline", f" {space}>iNLINE").replace(
        "Choose", "cHOOSE"
    )
    sheet = sheet.replace("Page", "pAGE").replace("Mine", "mINE")
    assert part(found, "xl/worksheets/sheet1.xml").endswith(sheet)
    assert "lOOK HERE" in part(found, "xl/comments/comment1.xml")
    assert part(found, "xl/tables/table1.xml") == table


def test_open_documents():
    styles = (
        '<style:style style:name="B" style:family="text">'
        '<style:text-properties bold="1"/></style:style>'
        '<style:style style:name="T2" '
        'style:family="text"><style:text-properties rsid="1"/></style:style>'
        '<style:style style:name="P1" style:family="paragraph" '
        'style:parent-style-name="Preformatted_20_Text"/>'
    )
    bold = '<text:span text:style-name="B">{}</text:span>'.format
    cell = "<table:table-cell {}><text:p>{}</text:p></table:table-cell>".format
    formula = 'table:formula="of:=IF([.A1]=&quot;yes&quot;;1;2)"'
    string = 'office:value-type="string"'
    note = "<text:note><text:p>{}</text:p></text:note>".format
    link = '<text:a href="u">{}</text:a>'.format
    page = "<text:page-number>three</text:page-number>"
    kept = (
        "<text:tracked-changes><text:p>Gone</text:p></text:tracked-changes>"
        '<text:p text:style-name="P1">print x</text:p>'
        + cell('office:value-type="date"', "1 May")
        + cell(f"{string} {formula}", "May")
        + cell(string, "yes")
    )
    source = (
        f"{kept}<text:h>Big {bold('wor')}{bold('ld')}"
        '<text:span text:style-name="T2">ly</text:span> news</text:h>'
        f'<text:p>One<text:s text:c="2"/>two{note("Note")}, {link("a link")}.'
        f"<text:tab/>Page {page}.</text:p>{cell(string, 'Word')}"
    )
    expected = (
        f"{kept}<text:h>bIG {bold('WORLDLY')} NEWS</text:h>"
        f'<text:p>oNE<text:s text:c="2"/>TWO{note("nOTE")}, {link("A LINK")}.'
        f"<text:tab/>pAGE {page}.</text:p>{cell(string, 'wORD')}"
    )
    content = odf("spreadsheet", source, styles)
    found = upper(content, "ods")
    assert f"<office:body>{expected}</office:body>" in part(
        found, "content.xml"
    )
    for before, after in zip(unzip(content), unzip(found), strict=True):
        assert before[:2] == after[:2]
        assert before[2] == after[2] or before[0] == "content.xml"
    assert unzip(found)[0][:2] == ("mimetype", zipfile.ZIP_STORED)


def test_a_translation_that_is_no_markup_of_the_paragraph_is_refused():
    file = open_office(docx(f"<w:p>{run('Text')}</w:p>"), FileOptions())
    for text in ("Text", "<html>a<g>b</g></html>", '<html><x id="7"/></html>'):
        with pytest.raises(InputError):
            file.write([text])
    # What it lacks is at the end.
    body = f"<w:p>{run('A')}<w:r><w:sym/></w:r>{run('b')}</w:p>"
    found = open_office(docx(body), FileOptions()).write(["<html>C</html>"])
    expected = f"<w:p>{run('C')}<w:r><w:sym/></w:r></w:p>"
    assert expected in part(found, "word/document.xml")
