"""Files of other formats than text are told from it, and from sentences."""

import json

import pytest

from export.common.errors import InputError
from export.lines import file_formats
from export.lines.file_formats import decode_document, detect_format
from tests import made_up_text
from tests.export import commands
from tests.export.http_server.running import MadeUpModel, run_server

CATALOGUE = {"menu": {"open": "Open the file", "close": "Close it"}}
OTHERS = {
    "JSON": [
        json.dumps(CATALOGUE),
        json.dumps(CATALOGUE, indent=2),
        # Its beginning, as a chunk of lines is.
        json.dumps(CATALOGUE, indent=2)[:-9],
        json.dumps(["Hello.", "Good bye."]),
        '{"text": "Hello."}\n{"text": "Good bye."}\n',
    ],
    "settings": [
        "en:\n  menu:\n    open: Open the file\n    close: 'Close it'\n",
        "# Messages\nmenu.open=Open the file\nmenu.close = Close it\n",
        '[menu]\nopen = "Open the file"\nclose = "Close it"\n',
        '"open" = "Open the file";\n"close" = "Close it";\n',
        "title: Hello\nbody: |\n  Some text.\n  More.\ntags: [a]\n",
    ],
    "YAML": ["---\ntitle: Hello\ndate: 2026-01-01\n---\n\nSome text.\n"],
    "PO": ['# Tom\nmsgid ""\nmsgstr ""\n\nmsgid "Open"\nmsgstr "Ouvrir"\n'],
    "CSV": [
        'id,source,target\n1,Hello,Bonjour\n2,"Yes, I do.",Oui\n',
        "key;text\na;Hello there.\nb;Good bye.\n",
        "key\ttext\na\tHello there.\nb\tGood bye.\n",
    ],
    "subtitles": [
        "1\n00:00:01,000 --> 00:00:02,500\nHello.\n\n2\n00:00:03,000 --> "
        "00:00:04,000\nGood bye.\n",
        "[Script Info]\nTitle: x\n",
    ],
    "WebVTT": ["WEBVTT\n\n00:01.000 --> 00:02.000\nHello.\n"],
    "XML": ['\ufeff<?xml version="1.0"?>\n<a>Hello</a>\n'],
    "HTML": [
        "<!DOCTYPE html>\n<title>x</title>\n<p>Hello",
        "<html lang=en><body><p>Hello</p></body></html>",
        "<p>Hello <b>you</b>.</p>\n<ul class='x'><li>One</li></ul>",
        "<TS language='fr'><context>Hello</context></TS>",
    ],
    "Markdown": [
        "# Use\n\nRun it:\n\n```bash\nrun --fast\n```\n",
        "| flag | meaning |\n|---|:--|\n| a | Hello |\n",
        "# Use\n\nSee [here](https://example.org) for **all** of it.\n",
    ],
    "LaTeX": ["\\documentclass{article}\n\\begin{document}\nHello.\n"],
    "reStructuredText": ["Use\n===\n\n.. note:: Hello.\n"],
    "script": ["#!/bin/sh\necho Hello\n"],
    "e-mail": ["From: a@b.org\nMIME-Version: 1.0\nSubject: x\n\nHello.\n"],
    "RTF": ["{\\rtf1\\ansi Hello}"],
    "PDF": ["%PDF-1.4\n1 0 obj\n"],
    "PostScript": ["%!PS\n"],
    "calendar": ["BEGIN:VCALENDAR\nVERSION:2.0\n"],
}
TEXTS = [
    "",
    "Hello.",
    "Note: this is one.\nPS: and this is another.",
    "Tom: Hello.\nMary: Hello, Tom.\nTom: How are you?\n",
    "tom: hello\nmary: hi\ntom: bye\nmary: ok\ntom: see you\nmary: yes",
    "# A heading\n\n- one\n- two\n\n> quoted\n\n1. three\n",
    "Use *this*, or `that`.",
    "[1] Knuth, D.: Books.\n[2] Lamport, L.: More books.\n",
    "[Laughs] Who, me?",
    "[1]",
    "It costs 1,000 dollars.\nIt costs 2,000 dollars.\nIt costs 3,000 dollars.",
    "Yes, I do.\nNo, you don't.\nWell, perhaps.\nSo, so.",
    "a < b and c > d\n<3 you",
    "{name} has {count} files.",
    "--- \nWell, that was it.",
    "12\n14:30 --> the train leaves\n",
    "see: me\nfeel: me",
    "=== Title ===\n\nA text of a wiki.\n",
    "From: me\nTo: you\n\nA letter.",
]


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_told(name):
    for text in OTHERS[name]:
        for sample in text, text.replace("\n", "\r\n"), f"\n{text}\n\n":
            assert name in (detect_format(sample) or ""), sample


def test_texts_are_none_of_them():
    sentences = made_up_text.sentences()
    blocks = ["\n".join(sentences[i : i + 9]) for i in range(len(sentences))]
    for text in [*TEXTS, *sentences, *blocks]:
        assert detect_format(text) is None, text


def test_binary_files_are_refused_by_name():
    for start, (name, advice) in file_formats._BINARY.items():
        with pytest.raises(InputError) as caught:
            decode_document(start + b"\xff\x00\xfe" * 9)
        assert name in str(caught.value)
        assert advice in str(caught.value)
    # Lines are refused, too.
    code, lines, err = commands.run(
        *("export.client", None, start + b"\xff\x00\xfe\n" * 9),
        "--url=http://localhost:1",
    )
    assert (code, lines, len(err)) == (2, [], 1)
    assert name in err[0]
    for content in "Hello".encode("utf-16"), "Hello".encode("utf-16-le"):
        with pytest.raises(InputError):
            decode_document(content)
    assert decode_document("h\u00e9".encode()) == "h\u00e9"


def test_a_document_is_refused_and_lines_get_a_warning(tmp_path):
    with run_server(MadeUpModel()) as url:

        def run(text, *flags):
            path = tmp_path / "out"
            path.unlink(missing_ok=True)
            code, _, err = commands.run(
                *("export.client", None, text.encode()),
                *(f"--url={url}", f"--output={path}", *flags),
            )
            err = [line for line in err if "input is" in line]
            return code, path.exists() and path.read_text("utf-8"), err

        for name in ("JSON", "PO", "CSV", "HTML"):
            text = OTHERS[name][0]
            code, output, (err,) = run(text, "--document")
            assert (code, output) == (2, False)
            assert name in err
            code, _, (err,) = run(text)
            assert code == 0
            assert name in err
            assert run(text, "--format=text")[::2] == (0, [])
            assert run(text, "--document", "--format=text")[::2] == (0, [])
        code, output, (err,) = run(OTHERS["PO"][0], "--format=html")
        assert (code, "PO" in err) == (0, True)
        assert run(OTHERS["HTML"][0], "--format=html")[::2] == (0, [])
        assert run(TEXTS[3], "--document")[::2] == (0, [])
