"""Formats by ending, translation memories, and the command on files."""

import contextlib

import pytest
from hypothesis import strategies as st
from lxml import etree

from export import loading
from export.common.errors import InputError
from export.formats.file_format import ENCODINGS, FileOptions, Segment
from export.formats.files import (
    FORMATS,
    find_format,
    open_file,
    translate_file,
)
from export.formats.memory import Memory
from export.translators.languages import Languages
from tests.export import commands
from tests.export.documents import made_up
from tests.export.documents.made_up import RuleTranslator, invert_case
from tests.export.formats.round_trip import (
    COUNTS,
    on_documents,
    texts,
    translate,
    translate_text,
)


def test_endings_name_formats():
    for name, each in FORMATS.items():
        for ending in each.endings:
            path = f"a/x{ending.upper()}"
            assert find_format(path) == find_format(path, "auto") == name
            assert find_format(path, "po") == "po"
    assert find_format("res/values/strings.xml") == "android"
    for arguments in ("a.pdf",), ("a",), ("a.po", "pdf"):
        with pytest.raises(InputError):
            find_format(*arguments)
    assert find_format("a.txt", None, b"Hello.\n") == "text"
    with pytest.raises(InputError, match="JSON"):
        find_format("a.txt", None, b'{\n"a": "b"}')


@COUNTS
def test_paragraphs_are_translated_as_the_whole_text(count):
    def check(text):
        assert translate(text, "text") == translate_text(text)

    on_documents(made_up.texts, count, check)


@pytest.mark.parametrize(
    ("name", "document", "is_xml"),
    [
        ("json", '{"a": "%s"}', False),
        ("yaml", "a: %s\n", False),
        ("properties", "a = %s\n", False),
        ("csv", "a,b\n%s,1\n", False),
        ("ftl", "a = %s\n", False),
        ("po", 'msgid ""\nmsgstr ""\n\nmsgid "%s"\nmsgstr ""\n', False),
        (
            "android",
            '<resources><string name="a">%s</string></resources>',
            True,
        ),
        ("resx", '<root><data name="a"><value>%s</value></data></root>', True),
        (
            "xliff",
            '<xliff version="1.2"><file original="a" source-language="en" '
            'datatype="html"><body><trans-unit id="1"><source>%s</source>'
            "</trans-unit></body></file></xliff>",
            True,
        ),
    ],
)
def test_values_with_entities_are_html(name, document, is_xml):
    if name in ("ftl", "yaml"):
        pytest.importorskip({"ftl": "fluent.syntax"}.get(name, name))
    for value, expected in (
        ("It&#39;s 10&nbsp;km &amp; so", "iT&#39;S 10&nbsp;KM &amp; SO"),
        ("The a&b; and AT&T", "tHE A&B; AND at&t"),
    ):
        value, expected = (
            each.replace("&", "&amp;") if is_xml else each
            for each in (value, expected)
        )
        is_new = name in ("po", "xliff")
        assert expected in translate(document % value, name, is_new)


def test_markup_is_translated_as_one_document():
    html = "<!doctype html><p class=a>Hello <b>you</b></p>"
    expected = RuleTranslator(invert_case).translate_document(html, "html")
    assert translate(html, "html") == expected
    assert translate("<a>Hi</a>", "xml") == "<a>hI</a>"
    with pytest.raises(InputError):
        translate('{"a": "b"}', "html")


@pytest.mark.parametrize("name", ["text", "json", "xml", "csv", "markdown"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1252"])
def test_other_encodings_stay(name, encoding):
    body = {
        "json": '{"x": "Ca caf\u00e9"}\r\n',
        "xml": f'<?xml version="1.0" encoding="{encoding}"?>\n<a>D\u00e9</a>',
    }.get(name, "Un caf\u00e9\r\n")
    has_mark = encoding.startswith("utf-16")
    content = (has_mark * "\ufeff" + body).encode(encoding)
    options = FileOptions(encoding=None if has_mark else encoding)
    file = open_file(content, name, options)
    assert file.write([each.text for each in file.segments]) == content
    translator = RuleTranslator(invert_case)
    found = translate_file(translator, content, name, options)
    expected = translate_file(translator, body.encode(), name)
    assert found.decode(encoding).strip("\ufeff") == expected.decode()


@pytest.mark.parametrize(
    ("name", "before", "repeated"),
    [
        *(("json", "", each) for each in ("[", '{"a":')),
        *(("yaml", "", each) for each in ("[", "a: {")),
        *(("markdown", "", each) for each in (">", "[", "- ", "*a ", "`a")),
        *(("xml", "", "<a>"), ("android", "<resources>", "<b>")),
        *(("resx", "<root>", "<b>"), ("xliff", '<xliff version="1.2">', "<g>")),
        *(("po", 'msgid "', "("), ("ftl", "a = ", "{"), ("csv", "", '"a,')),
        *(("properties", "", "a\\"), ("properties", "a=", "\\u00")),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\n", "<i>"),
        ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n", "a-->"),
    ],
)
def test_what_never_ends_is_refused_or_kept_soon(name, before, repeated):
    def read_and_write(count):
        content = f"{before}{repeated * count}".encode()
        with contextlib.suppress(InputError):
            file = open_file(content, name)
            texts = [segment.text for segment in file.segments]
            assert file.write(texts) == content

    made_up.assert_linear_time(read_and_write, 20_000, 5_000)


def test_what_an_encoding_lacks_is_an_error():
    options = FileOptions(encoding="cp1252")
    for content, name in (b"\x81", "text"), (b"a\0b", "text"):
        with pytest.raises(InputError):
            open_file(content, name, options)
    file = open_file(b"Un", "text", options)
    with pytest.raises(InputError, match="0151"):
        file.write(["\u0151"])
    # Not text: its own format tells.
    with pytest.raises(InputError):
        open_file(b"\xff\xfea", "text")
    for name in ENCODINGS:
        assert "a".encode(name).decode(name) == "a"


def translate_with(memory, text, name="markdown"):
    """Returns the translation and the texts that the translator got."""
    translator = RuleTranslator(invert_case)
    content = translate_file(translator, text.encode(), name, memory=memory)
    return content.decode(), translator.texts


def test_a_memory_leaves_what_changed(tmp_path):
    page = "One *big*\nhouse.\n\nTwo & three.\n\n`code`\n"
    memory = Memory("en", "fr")
    first, found = translate_with(memory, page)
    assert len(found) == 2
    path = tmp_path / "m.tmx"
    memory.write(path)

    memory = Memory("en", "fr")
    memory.read(path)
    assert translate_with(memory, page) == (first, [])
    changed = page.replace("Two", "Four")
    output, found = translate_with(memory, changed)
    assert output == first.replace("tWO", "fOUR")
    assert found == ["Four & three."]
    # The same sentence in a file of another format.
    text = '{"a": "Four & three."}'
    output = text.replace("Four & three", "fOUR & THREE")
    assert translate_with(memory, text, "json")[0] == output


@COUNTS
def test_a_memory_holds_any_text(count, tmp_path):
    def check(units):
        memory = Memory("en", "de")
        for unit in units:
            memory.add(*unit)
        memory.write(tmp_path / "m.tmx")
        read = Memory("en", "de")
        read.read(tmp_path / "m.tmx")
        for segment, _ in units:
            assert read.find(segment) == memory.find(segment)
        # Well-formed for others, with two languages a unit.
        root = etree.parse(tmp_path / "m.tmx").getroot()
        assert {len(unit.findall("tuv")) for unit in root.iter("tu")} <= {2}

    characters = st.characters(
        exclude_categories=["Cs"], exclude_characters="\0"
    )
    text = (
        texts
        | st.text(characters, min_size=1, max_size=9).filter(
            lambda each: each.isprintable()
        )
        | st.just("a\r\nb")
    )
    segments = st.builds(Segment, text, st.sampled_from(["text", "html"]))
    on_documents(st.lists(st.tuples(segments, text), max_size=5), count, check)


TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="EN-us"><prop type="x">y</prop></header>
<body>
<tu><note>n</note><tuv xml:lang="fr-CA"><seg>Bonjour <bpt i="1">&lt;b></bpt>toi\
<ept i="1">&lt;/b></ept>.</seg></tuv><tuv xml:lang="EN-us"><seg>Hello you.</seg>
</tuv><tuv xml:lang="de"><seg>Hallo.</seg></tuv></tu>
<tu><tuv lang="en"><seg>Bye.</seg></tuv><tuv lang="fr"><seg>Adieu.</seg></tuv>
<tuv lang="fr-CA"><seg>Salut.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>No.</seg></tuv></tu>
</body></tmx>
"""


def test_memories_of_other_programs(tmp_path):
    path = tmp_path / "m.tmx"
    path.write_text(TMX)
    memory = Memory("en", "fr")
    memory.read(path)
    assert memory.find(Segment("Hello you.")) == "Bonjour <b>toi</b>."
    assert memory.find(Segment("Bye.")) == "Adieu."
    assert memory.find(Segment("No.")) is None
    memory = Memory("en_US", "fr-CA")
    memory.read(path)
    assert memory.find(Segment("Bye.")) == "Salut."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<tmx>",
        "<html></html>",
        '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx>&a;</tmx>',
        '<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx>&a;</tmx>',
    ],
)
def test_damaged_and_hostile_memories_are_refused(text, tmp_path):
    path = tmp_path / "m.tmx"
    path.write_text(text)
    with pytest.raises(InputError, match=r"m\.tmx"):
        Memory("en", "fr").read(path)
    with pytest.raises(InputError, match="languages"):
        Memory("en").read(path)


@pytest.fixture
def run(monkeypatch):
    """Runs the command with a translator that inverts the case of letters."""
    translator = RuleTranslator(invert_case)
    translator.languages = Languages(source="en", target="fr")
    monkeypatch.setattr(loading, "load_translator", lambda *_, **__: translator)

    def run_command(*arguments):
        translator.texts.clear()
        result = commands.run("export.translate", "m", [], *arguments)
        return *result, [*translator.texts]

    return run_command


def test_the_command_writes_what_it_can(run, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    contents = {
        "a.csv": ("id,text\n1,Hi you\n", "id,text\n1,hI YOU\n"),
        "b.json": ('{"key": "Hi"}', '{"key": "hI"}'),
        "c.json": ("{", None),
        "d.md": ("# Hi\n\n```\nHi\n```\n", "# hI\n\n```\nHi\n```\n"),
        "e.xyz": ("Hi", None),
        "f.txt": ("Hi\n", "hI\n"),
    }
    for name, (text, _) in contents.items():
        (folder / name).write_text(text)
    files = [*sorted(folder.iterdir()), folder / "missing.po"]
    flags = [f"--output_dir={out}", "--columns=text"]
    code, lines, err, _ = run(*files, *flags)
    assert code == 2
    expected = {name: new for name, (_, new) in contents.items() if new}
    assert lines == [str(out / name) for name in expected]
    assert {p.name: p.read_text() for p in out.iterdir()} == expected
    assert [line.partition(":")[0] for line in err[-3:]] == [
        str(folder / name) for name in ("c.json", "e.xyz", "missing.po")
    ]

    # Nothing is overwritten.
    (out / "f.txt").write_text("mine")
    code, lines, _, texts = run(folder / "f.txt", *flags)
    assert (code, lines, texts) == (2, [], [])
    assert (out / "f.txt").read_text() == "mine"
    code, lines, _, _ = run(folder / "e.xyz", *flags, "--format=text")
    assert (code, (out / "e.xyz").read_text()) == (0, "hI")


def test_the_command_takes_an_encoding(run, tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_bytes("Du caf\u00e9\n".encode("cp1252"))
    code, *_ = run(path, f"--output_dir={out}", "--encoding=cp1252")
    found = (out / "a.txt").read_bytes().decode("cp1252")
    assert (code, found) == (0, "dU CAF\u00c9\n")


def test_a_second_run_translates_what_changed(run, tmp_path):
    path, memory = tmp_path / "a.md", tmp_path / "m.tmx"
    for number, (text, new) in enumerate(
        [("One.\n\nTwo.\n", ["One.", "Two."]), ("Six.\n\nTwo.\n", ["Six."])]
    ):
        path.write_text(text)
        out = tmp_path / str(number)
        flags = [f"--output_dir={out}", f"--write_memory={memory}"]
        flags += [f"--memory={memory}"] * number
        code, _, _, texts = run(path, *flags)
        assert (code, texts) == (0, new)
        assert (out / "a.md").read_text() == text.swapcase()
    assert memory.read_text().count("<tu>") == 3


def test_flags_of_files_and_of_lines_are_not_mixed(run, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("ba\n")
    out = f"--output_dir={tmp_path / 'out'}"
    (tmp_path / "old.tmx").write_text("mine")
    for arguments in (
        (path,),
        (out,),
        ("--format=po",),
        ("--memory=m.tmx",),
        (path, out, "--n_best=2"),
        (path, out, f"--input={path}"),
        (path, out, f"--write_memory={tmp_path / 'old.tmx'}"),
        (path, out, f"--memory={tmp_path / 'none.tmx'}"),
    ):
        code, lines, err, _ = run(*arguments)
        assert (code, lines, len(err)) == (2, [], 1), arguments
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "old.tmx").read_text() == "mine"
