"""Catalogs, compared with what other readers of the formats read."""

import io
from xml.etree import ElementTree

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from hypothesis import strategies as st

from export.common.errors import InputError
from export.formats.files import open_file
from tests.export.formats.round_trip import (
    COUNTS,
    on_documents,
    texts,
    translate,
    translate_text,
    words,
)

entries = st.lists(
    st.tuples(
        words,
        st.none() | words,
        st.sampled_from(["", "Vieux"]),
        st.sampled_from([(), ("fuzzy",), ("python-format", "fuzzy")]),
        st.sampled_from([None, "menu"]),
    ),
    max_size=5,
    unique_by=lambda entry: (entry[0], entry[4]),
)


def make_catalog(content):
    catalog = Catalog(locale="de", fuzzy=False)
    for source, plural, target, flags, context in content:
        message = (source, plural) if plural else source
        string = (target, target) if plural else target
        catalog.add(
            message, string, context=context, flags=flags, locations=[("a", 1)]
        )
    out = io.BytesIO()
    write_po(out, catalog, width=40)
    return out.getvalue().decode("utf-8")


@COUNTS
def test_untranslated_and_fuzzy_messages_are_translated(count):
    def check(content):
        text = make_catalog(content)
        for all_units in False, True:
            out = translate(text, "po", is_new=True, all_units=all_units)
            found = read_po(io.BytesIO(out.encode()))
            assert len(found) == len(content)
            assert out.count("python-format") == text.count("python-format")
            for source, plural, target, flags, context in content:
                message = found.get(source, context)
                expected = translate_text(source)
                if target and not all_units and "fuzzy" not in flags:
                    expected = target
                assert not message.fuzzy
                assert message.locations == [("a", 1)]
                if plural:
                    other = translate_text(plural)
                    other = target if expected == target else other
                    assert message.string == (expected, other)
                else:
                    assert message.string == expected
            # All that is translated stays byte for byte.
            assert translate(out, "po") == out

    on_documents(entries, count, check)


def test_catalogs_keep_what_is_not_translated():
    text = (
        "# Tom, 2026\r\n"
        'msgid ""\r\nmsgstr ""\r\n"Plural-Forms: nplurals=1; plural=0;\\n"\r\n'
        '\r\n#. Hint\r\n#, fuzzy\r\n#| msgid "Old"\r\nmsgid ""\r\n"One\\n"\r\n'
        '"two\\t\\"x\\""\r\nmsgstr "Vieux"\r\n\r\nmsgid "file"\r\n'
        'msgid_plural "files"\r\nmsgstr[0] ""\r\n\r\n#~ msgid "a"\r\n'
        '#~ msgstr "b"\r\n'
    )
    expected = (
        text.replace('#, fuzzy\r\n#| msgid "Old"\r\n', "")
        .replace('"Vieux"', '""\r\n"oNE\\n"\r\n"TWO\\t\\"X\\""')
        .replace('msgstr[0] ""', 'msgstr[0] "FILES"')
    )
    assert translate(text, "po", is_new=True) == expected


@pytest.mark.parametrize(
    "entry",
    [
        'msgid "a"\nmsgid_plural "b"\nmsgstr[0] "c"\n',
        'msgid "a"\n\nmsgid "b"\nmsgstr ""\n',
        'msgid "a"\nmsgstr "b\n',
        '{"msgid": "a"}\n',
    ],
)
def test_damaged_catalogs_are_refused(entry):
    header = 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n>1;\\n"\n\n'
    with pytest.raises(InputError, match="ine [456]"):
        translate(header + entry, "po")


def test_properties():
    text = (
        "# Menu = no\n! no\n\na.b = Hello \\\n    you {0}\nc\\ d:It''s\\n\\\n"
        " two\\u00e9 \ne\\=f   g h\nempty=\n  key\r\nlast=x\\\\"
    )
    expected = (
        "# Menu = no\n! no\n\na.b = hELLO YOU {0}\nc\\ d:iT''S\\nTWO\\u00c9 \n"
        "e\\=f   G H\nempty=\n  key\r\nlast=X\\\\"
    )
    assert translate(text, "properties") == expected
    assert translate("a=\u00e9 b\n", "properties") == "a=\u00c9 B\n"


@COUNTS
def test_properties_of_any_text(count):
    def check(values):
        lines = [
            f"k{i}={v.strip().encode('unicode_escape').decode('ascii')}\n"
            for i, v in enumerate(values)
        ]
        out = translate("".join(lines), "properties")
        found = [
            line.partition("=")[2].encode("ascii").decode("unicode_escape")
            for line in out.splitlines()
        ]
        assert found == [translate_text(value.strip()) for value in values]

    on_documents(st.lists(texts, max_size=4), count, check)


ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- Menu --><resources xmlns:x="urn:oasis:names:tc:xliff:document:1.2">
  <string name="a">Don\\'t &amp; %1$s\\nSecond \\"line\\"</string>
  <string name="q">"It's  so"</string>
  <string name="b">A <b>bold</b> it\\'s <x:g id="n">%d</x:g></string>
  <string name="c" translatable="false">No</string>
  <string name="d">@string/a</string><color name="e">red</color>
  <string-array name="f"><item>One</item><item>?attr/x</item></string-array>
  <plurals name="p"><item quantity="one">%d \u00e9 file</item></plurals>
</resources>
"""


def test_android():
    found = translate(ANDROID, "android")
    assert found == (
        ANDROID.replace("Don\\'t", "dON\\'T")
        .replace('Second \\"line', 'sECOND \\"LINE')
        .replace("It's  so", "iT'S  SO")
        .replace("A <b>bold</b> it\\'s", "a <b>BOLD</b> IT\\'S")
        .replace(">One<", ">oNE<")
        .replace("\u00e9 file", "\u00c9 FILE")
    )


@COUNTS
def test_resx_of_any_text(count):
    def check(values):
        root = ElementTree.Element("root")
        for value in ["no", *values]:
            item = ElementTree.SubElement(root, "data", name="x")
            ElementTree.SubElement(item, "value").text = value
            ElementTree.SubElement(item, "comment").text = "Comment"
        root[0].set("type", "System.Drawing.Point")
        text = ElementTree.tostring(root, encoding="unicode")
        found = ElementTree.fromstring(translate(text, "resx"))
        assert [each.text for each in found.iter("value")] == [
            "no",
            *map(translate_text, values),
        ]
        comments = {each.text for each in found.iter("comment")}
        assert comments == {"Comment"}

    on_documents(st.lists(texts, max_size=4), count, check)


FTL = """# Menu
open = Open { $name } now!
    .title = A title
many = { $n ->
    [one] One file
   *[other] { NUMBER($n) } files
 }
-brand = Firefox
both = { open } and { -brand }
long =
    First line
    second { "{" }line
"""


def test_fluent():
    ast = pytest.importorskip("fluent.syntax")
    found = translate(FTL, "ftl")
    assert found == (
        FTL.replace("Open {", "oPEN {")
        .replace("now!", "NOW!")
        .replace("A title", "a TITLE")
        .replace("One file", "oNE FILE")
        .replace("} files", "} FILES")
        .replace("} and {", "} AND {")
        .replace("First line", "fIRST LINE")
        .replace("second", "SECOND")
        .replace("}line", "}LINE")
    )
    for entry in ast.parse(found).body:
        assert not isinstance(entry, ast.ast.Junk)
    windows = translate(FTL.replace("\n", "\r\n"), "ftl")
    assert windows == found.replace("\n", "\r\n")
    for text in "a b\n", "a = b\rc = d\n", "a = b\r\nc = d\n":
        with pytest.raises(InputError):
            open_file(text.encode(), "ftl")


@pytest.mark.parametrize("name", ["android", "resx", "xliff"])
@pytest.mark.parametrize(
    "text",
    [
        "<other/>",
        "<a>",
        "{}",
        "",
        '<?xml version="1.0" encoding="latin-1"?><resources/>',
    ],
)
def test_other_xml_is_refused(name, text):
    with pytest.raises(InputError):
        open_file(text.encode(), name)
