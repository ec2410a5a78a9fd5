"""Tables, JSON and YAML, compared with what Python's readers read."""

import csv
import io
import json

import pytest
import yaml
from hypothesis import strategies as st

from export.common.errors import InputError
from export.formats.file_format import FileOptions
from export.formats.files import open_file
from tests.export.formats.round_trip import (
    COUNTS,
    on_documents,
    texts,
    translate,
    translate_text,
    words,
)

rows = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(texts, min_size=width, max_size=width), min_size=2, max_size=4
    )
)
data = st.recursive(
    texts | st.none() | st.booleans() | st.integers() | st.just("2026-01-01"),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(words, each, max_size=3)
    ),
    max_leaves=9,
)


def read_rows(text, delimiter):
    return [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]


def write_rows(content, delimiter, **options):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **options).writerows(content)
    return out.getvalue()


def translate_values(value):
    if isinstance(value, dict):
        return {key: translate_values(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(translate_values, value)]
    return translate_text(value) if isinstance(value, str) else value


@COUNTS
@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_cells_are_translated_and_quoted(count, name):
    delimiter = {"csv": ",", "tsv": "\t"}[name]

    def check(content):
        # So that it is the most frequent one of the first line.
        content[0] = [f"c{index}" for index in range(len(content[0]))]
        for options in (
            {"lineterminator": "\n"},
            {"lineterminator": "\r\n", "quoting": csv.QUOTE_ALL},
        ):
            text = write_rows(content, delimiter, **options)
            found = read_rows(translate(text, name), delimiter)
            assert found == translate_values(content)
            found = read_rows(translate(text, name, columns=("c0",)), delimiter)
            first = [[translate_text(row[0]), *row[1:]] for row in content[1:]]
            assert found == [content[0], *first]

    on_documents(rows, count, check)


def test_columns_have_numbers_and_names():
    text = "\ufeffid;text;note\n1;Hello, you.;no\n2;\n\n3;Bye.;no\n"
    both = "\ufeffid;text;note\n1;hELLO, YOU.;no\n2;\n\n3;bYE.;no\n"
    assert translate(text, "csv", columns=("text",)) == both
    assert translate(text, "csv", columns=("2",)) == both.replace(
        "text", "TEXT"
    )
    for columns in ("4",), ("0",), ("texts",), ("text", "x"):
        with pytest.raises(InputError, match="no column"):
            translate(text, "csv", columns=columns)


def test_quotes_within_tsv_are_text():
    assert translate('"Hi" he\t6" wide\n', "tsv") == '"hI" HE\t6" WIDE\n'
    for text in 'a,"b', 'a,b\n"c" d,e\n':
        with pytest.raises(InputError, match=r"quote .* line \d"):
            translate(text, "csv")


@COUNTS
def test_values_of_json_are_translated(count):
    def check(content):
        for options in {}, {"indent": 2}, {"ensure_ascii": False}:
            text = json.dumps(content, **options)
            found = translate(text, "json")
            assert json.loads(found) == translate_values(content)
            assert found.isascii() or not text.isascii() or "\\u" not in text

    on_documents(data, count, check)


def test_json_keeps_spelling_of_what_is_not_translated():
    text = '{"a\\u0062": [1e3, "1\\/2", "x {n}" ],\r\n "a:": "b:"}\n'
    expected = '{"a\\u0062": [1e3, "1\\/2", "X {n}" ],\r\n "a:": "B:"}\n'
    assert translate(text, "json") == expected


@COUNTS
def test_values_of_yaml_are_translated(count):
    def check(content):
        for style in None, '"', "'", "|", ">":
            text = "# Comment\n" + yaml.safe_dump(
                {"en": content, "z": "one"},
                default_style=style,
                allow_unicode=style != '"',
                width=30,
            )
            found = yaml.safe_load(translate(text, "yaml"))
            assert found == translate_values({"en": content, "z": "one"})

    on_documents(data, count, check)


def test_yaml_keeps_comments_anchors_and_styles():
    text = (
        "# Menu\nen:\n  open: &open Open it # now\n  'other': *open\n"
        "  yes: [ one , 'two', \"three\\n\" ]\n  n: 3 # three\n  s: !!str 4\n"
        "  long: |-\n      First.\n      Second.\n\n\n  folded: >\n    A long\n"
        "    line\n...\n---\n- last one"
    )
    expected = (
        "# Menu\nen:\n  open: &open oPEN IT # now\n  'other': *open\n"
        "  yes: [ ONE , 'TWO', \"THREE\\n\" ]\n  n: 3 # three\n  s: !!str 4\n"
        "  long: |-\n      fIRST.\n      sECOND.\n\n\n  folded: >\n"
        "    a LONG LINE\n...\n---\n- LAST ONE"
    )
    assert translate(text, "yaml") == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("json", b"{"),
        ("json", b"[" * 100_000),
        ("json", b"PK\x03\x04\xff"),
        ("yaml", b"a: [b"),
        ("yaml", b"a: b: c"),
        ("yaml", b"[" * 5_000),
        ("csv", b"\xff\xfea"),
    ],
)
def test_other_content_is_refused(name, content):
    with pytest.raises(InputError):
        open_file(content, name, FileOptions())
