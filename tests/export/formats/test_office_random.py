"""Office files of random parts: what stays, and the formats of words."""

from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import strategies as st

from export.formats.file_format import FileOptions
from export.formats.office import open_office
from tests.export.documents.made_up import invert_case, keep, shuffle
from tests.export.formats.office_files import (
    BOX,
    CONTROL,
    DELETED,
    FOOTNOTE,
    FORMULA,
    INSERTED,
    LINK,
    MARK,
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
from tests.export.formats.round_trip import COUNTS, on_documents, words

# Paragraphs and their parts, with {} in place of words, of each format.
KINDS = {
    "docx": (
        "<w:p><w:pPr><w:bidi/></w:pPr>{}</w:p>",
        *(run("{} "), run("{} ", "<w:b/>"), run("{} ", '<w:lang w:val="a"/>')),
        LINK(run("{} ", "<w:u/>") + run("{} ")),
        *(
            INSERTED(run("{} ")) + run(" "),
            DELETED,
            FOOTNOTE,
            CONTROL(run("{}")),
        ),
        field("PAGE", run("{}")) + run(" "),
        field(' HYPERLINK "a"', run("{}", "<w:u/>")) + run(" "),
        field("DATE", field("PAGE", run("{}"))) + run(" "),
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        MARK("Start") + run("{} ") + MARK("End"),
        *("<w:r><w:br/></w:r>", BOX("{}", run("{}"), ""), "<w:proofErr/>"),
        f"{FORMULA}<!-- {{}} -->",
    ),
    "pptx": (
        "<a:p><a:pPr/>{}<a:endParaRPr/></a:p>",
        *(
            "<a:r><a:t>{} </a:t></a:r>",
            "<a:br/>",
            "<a:fld><a:t>{}</a:t></a:fld>",
        ),
        '<a:r><a:rPr b="1" lang="en"/><a:t>{}\n</a:t></a:r>',
    ),
    "xlsx": (
        "<si>{}</si>",
        '<r><t xml:space="preserve">{}\n{} </t></r>',
        '<r><rPr><b/></rPr><t xml:space="preserve">{} </t></r>',
        "<rPh/>",
    ),
    "odt": (
        "<text:p>{}</text:p>",
        *("{} ", '<text:span text:style-name="B">{}</text:span>', "<text:s/>"),
        *("<text:a>{} </text:a>", "<text:tab/>", "<text:date>{}</text:date>"),
        '<text:bookmark-start text:id="1"/>{}<text:bookmark-end text:id="1"/>',
        "<text:note><text:p>{}</text:p></text:note>",
        '<text:span text:style-name="B">{}<text:a>{}</text:a></text:span>',
    ),
}
BUILDERS = {
    "docx": docx,
    "pptx": lambda body: zip_of(
        {"ppt/slides/slide1.xml": f'<s xmlns:a="{A}">{body}</s>'}
    ),
    "xlsx": lambda body: zip_of(
        {"xl/sharedStrings.xml": f'<sst xmlns="{X}">{body}</sst>'}
    ),
    "odt": lambda body: odf("text", body),
}


def strategy(kind):
    """Returns documents of a format."""
    frame, *parts = KINDS[kind]
    part = st.builds(
        lambda part, text: part.replace("{}", escape(text, {'"': "&quot;"})),
        st.sampled_from(parts),
        words,
    )
    paragraph = st.lists(part, max_size=6).map("".join).map(frame.format)
    return st.lists(paragraph, max_size=4).map("".join).map(BUILDERS[kind])


def kept_elements(content):
    """Returns all elements but runs, which come and go with formats."""
    return sorted(
        (each.tag, each.get(f"{{{W}}}id", ""))
        for name, _, data in unzip(content)
        if name.endswith(".xml")
        for each in ElementTree.fromstring(data).iter()
        if each.tag.rpartition("}")[2]
        not in ("r", "t", "rPr", "b", "u", "lang", "proofErr", "rPh", "span")
    )


def texts(content):
    """Returns the texts of all members, without blanks."""
    return [
        "".join(
            "".join(ElementTree.fromstring(data).itertext()).split()
        ).casefold()
        for name, _, data in unzip(content)
        if name.endswith(".xml")
    ]


@pytest.mark.parametrize("kind", KINDS)
@COUNTS
def test_files_keep_their_bytes_and_translations_their_elements(kind, count):
    def check(content):
        file = open_office(content, FileOptions())
        assert file.write([each.text for each in file.segments]) == content
        assert upper(content, kind, keep) == content
        for change in (invert_case, shuffle):
            found = upper(content, kind, change)
            for before, after in zip(unzip(content), unzip(found), strict=True):
                assert before[:2] == after[:2]
                assert before[2] == after[2] or before[0].endswith(".xml")
            assert kept_elements(found) == kept_elements(content)
            if change is invert_case:
                assert texts(found) == texts(content)

    on_documents(strategy(kind), count, check)


def letters(content):
    """Returns each letter with its format."""
    root = ElementTree.fromstring(part(content, "word/document.xml"))
    return [
        (
            letter,
            [
                each.tag
                for each in run.iterfind("*/*")
                if "lang" not in each.tag
            ],
        )
        for run in root.iter(f"{{{W}}}r")
        for text in run.iterfind(f"{{{W}}}t")
        for letter in text.text or ""
        if letter.isalpha()
    ]


@COUNTS
def test_formats_follow_words_that_runs_split(count):
    formats = st.sampled_from(["", "<w:b/>", "<w:i/>", "<w:b/><w:i/>"])
    parts = st.lists(st.sampled_from(["a", "be", "cat", ""]), max_size=3)
    # Runs of a word that differ in what is not seen.
    word = st.builds(
        lambda form, parts: (
            "".join(
                run(text, f'{form}<w:lang w:val="{index}"/>')
                for index, text in enumerate(parts)
            )
            + run(" ")
        ),
        formats,
        parts,
    )

    def check(words):
        content = docx(f"<w:p>{''.join(words)}</w:p>")
        expected = [(each.swapcase(), form) for each, form in letters(content)]
        assert letters(upper(content)) == expected

    on_documents(st.lists(word, max_size=12), count, check)
