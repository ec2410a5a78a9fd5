"""TMX: compared with lxml, whatever is broken around the units."""

import codecs
import gzip
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.trainers.data.memory_corpus import refused
from trainers.data.pair_files import tmx

LANGUAGES = ("en", "fr")
START = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<tmx version="1.4"><header srclang="en"/><body>\n'
)
END = "</body></tmx>\n"
TEXT = st.text(
    st.sampled_from("ab &<>\"'é\u4e2d\U0001f600")
    | st.characters(exclude_categories=["C", "Zl", "Zp"]),
    max_size=8,
)
CODE = st.one_of(
    TEXT.map(lambda text: f"<ph>{escape(text)}</ph>"),
    TEXT.map(lambda text: f'<bpt i="1">x<sub>{escape(text)}</sub></bpt>'),
    TEXT.map(lambda text: f"<hi>{escape(text)}<it pos='end'/></hi>"),
    TEXT.map(lambda text: f"<ph><hi>{escape(text)}</hi>y</ph>"),
    st.sampled_from(["<!-- <seg> -->", "<![CDATA[ <&> ]]>", "&#233;"]),
)
SEGMENT = st.lists(TEXT.map(escape) | CODE, max_size=4).map("".join)
CODES = st.sampled_from(
    ["en", "EN-us", "en_GB", "fr", "fr-CA", "de", "eng", "fra", ""]
)
UNIT = st.lists(st.tuples(CODES, SEGMENT), max_size=4)
# In the place of a text; each is an error for XML.
BROKEN = st.sampled_from(
    ["&nbsp;", "a & b", "x < y", "<ph>", "</hi>", "\1", "\udcff", "<a b=c/>"]
)


def write_unit(variants):
    texts = "".join(
        f"<tuv xml:lang={quoteattr(code)}><seg>{text}</seg></tuv>"
        for code, text in variants
    )
    return f"<tu><prop>fr</prop>{texts}</tu>\n"


def read(path, languages=LANGUAGES):
    """Returns the rows of a file, and (place, reason) of what is skipped."""
    skipped = []
    rows = tmx.read_tmx(
        path, languages, None, lambda *each: skipped.append(each)
    )
    return list(rows), skipped


def expected_rows(content):
    """Reads well-formed TMX by lxml, in memory."""
    rows = []
    for unit in etree.fromstring(content).iter("tu"):
        texts = {"en": [], "fr": []}
        for variant in unit.iter("tuv"):
            code = variant.get("{http://www.w3.org/XML/1998/namespace}lang")
            language = code.lower().replace("_", "-").split("-")[0]
            if language in texts:
                segment = variant.find("seg")
                for each in segment.xpath(".//bpt | .//ph | .//it"):
                    # Removes its content, and not the text after it.
                    tail = each.tail
                    each.clear()
                    each.tail = tail
                texts[language].append(segment.xpath("string()"))
        if all(texts.values()):
            rows.append((texts["en"][0], tuple(texts["fr"])))
    return rows


def check(units, breaks, block_bytes):
    """Compares a file with broken units with lxml's reading of the others."""
    good, every, lines = [], [], []
    for index, unit in enumerate(units):
        good.append(write_unit(unit))
        every.append(good[-1])
        if index in breaks:
            broken = [("en", "a"), ("fr", breaks[index])]
            lines.append(f"line {2 + len(every) + 1:,}")
            every.append(write_unit(broken))
    expected = expected_rows((START + "".join(good) + END).encode())
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as m,
    ):
        m.setattr(tmx, "_BLOCK_BYTES", block_bytes)
        path = Path(folder, "corpus.tmx.gz")
        text = START + "".join(every) + END
        path.write_bytes(gzip.compress(text.encode("utf-8", "surrogateescape")))
        rows, skipped = read(path)
    assert rows == expected
    places = [place for place, reason in skipped if "no text in" not in reason]
    assert places == lines
    assert len(skipped) == len(every) - len(rows)


CASES = given(
    st.lists(UNIT, min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 5), BROKEN, max_size=3),
    st.sampled_from([64, 500, 1 << 18]),
)
test_units_are_those_of_lxml = settings(max_examples=20)(CASES(check))
test_many_files = pytest.mark.slow(settings(max_examples=200)(CASES(check)))


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("UTF-8", "utf-8-sig"),
        ("UTF-16", "utf-16"),
        ("utf-16", "utf-16-be"),
        # A declaration that a conversion has left.
        ("utf-16", "utf-8"),
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
    ],
)
def test_encodings(tmp_path, monkeypatch, declared, encoding):
    monkeypatch.setattr(tmx, "_BLOCK_BYTES", 7)
    unit = write_unit(
        [("en", "café"), ("fr", "“été”" if "2" in encoding else "é")]
    )
    text = START.replace("UTF-8", declared) + unit * 2 + END
    path = tmp_path / "corpus.tmx"
    path.write_bytes(text.encode(encoding))
    rows, skipped = read(path)
    # lxml believes a declaration.
    path.write_bytes(text.replace(declared, "UTF-8").encode())
    assert rows == expected_rows(path.read_bytes())
    assert len(rows) == 2 and not skipped


def test_a_language_that_is_a_variant_has_priority(tmp_path):
    variants = [("pt_BR", "b"), ("pt", "p"), ("pt-PT", "P"), ("PT-br", "B")]
    path = tmp_path / "corpus.tmx"
    path.write_text(START + write_unit(variants) + END, "utf-8")
    assert read(path, ("pt-BR", "pt"))[0] == [("b", ("p", "P"))]
    assert read(path, ("pt", "pt-BR"))[0] == [("p", ("b", "B"))]
    assert len(read(path, ("pt-AO", "pt"))[1]) == 1


def test_structures_that_are_no_units(tmp_path):
    """Each is skipped once, and the units around it are read."""
    unit = write_unit([("en", "a"), ("fr", "b")])
    path = tmp_path / "corpus.tmx"
    for content, count in (
        (f"<!-- {unit} -->", 0),
        ("<tu><tu></tu></tu>", 2),
        ("<tuv xml:lang='en'><seg>x</seg></tuv>", 0),
        (
            "<tu><tuv lang='en'><seg>x<tu><tuv><seg/></tuv></tu></seg></tuv>"
            "</tu>",
            1,
        ),
        ("<tu><seg>x</seg><tuv/><tuv lang='de'><seg>x</seg></tuv></tu>", 1),
        ("<tu>" * 3 + "<tu x=1></tu>", 3),
        ("</body>", 1),
        ("\0", 1),
    ):
        path.write_text(START + unit + content + unit + END, "utf-8")
        rows, skipped = read(path)
        assert rows == [("a", ("b",))] * 2, content
        assert len(skipped) == count, (content, skipped)
    # A file that ends within a unit.
    path.write_text(START + unit + unit[:-9], "utf-8")
    rows, skipped = read(path)
    assert (len(rows), [place for place, _ in skipped]) == (1, ["line 4"])


def test_entities_are_never_read(tmp_path):
    path, unit = (
        tmp_path / "corpus.tmx",
        write_unit([("en", "a"), ("fr", "&x;")]),
    )
    (tmp_path / "secret").write_text("secret")
    start = START.split("\n", 1)[1]
    path.write_text(f'<!DOCTYPE tmx SYSTEM "secret">{start}{unit}{END}')
    assert read(path) == ([], [("line 2", "undefined entity &x;")])
    for declaration in (
        '<!ENTITY x SYSTEM "secret">',
        '<!ENTITY a "aa"><!ENTITY x "&a;&a;&a;">',
        '<!ENTITY % a SYSTEM "secret"> %a;',
    ):
        path.write_text(f"<!DOCTYPE tmx [{declaration}]>{start}{unit}{END}")
        with refused("entities"):
            read(path)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "corpus.tmx.gz"
    unit = write_unit([("en", "a"), ("fr", "b")])
    content = gzip.compress((START + unit * 999 + END).encode())
    for data, match in (
        (content[:-20], "gzip"),
        (content[:99] + b"\0" + content[100:], "gzip|CRC|read"),
        (b"<tmx>", "gzip"),
        (gzip.compress(codecs.BOM_UTF16_LE + b"<\0\0\xd8<\0"), "encoding"),
        (gzip.compress(b"<?xml version='1.0' encoding='hex'?>"), "encoding"),
    ):
        path.write_bytes(data)
        with refused(match):
            read(path)
    # No memory for endless units, comments and texts.
    monkeypatch.setattr(tmx, "_MAX_UNIT_BYTES", 2000)
    monkeypatch.setattr(tmx, "_BLOCK_BYTES", 500)
    for filler in (
        "x" * 3000,
        "<!-- " + "</tu>" * 999,
        "<tu><![CDATA[" + "</tu>" * 999,
    ):
        path.write_bytes(gzip.compress(f"{START}{unit}{filler}".encode()))
        with refused("no unit in"):
            read(path)
