"""Formats of files that are no plain text, told by their content.

Only what is unmistakable counts: sentences may contain anything.
"""

import codecs
import csv
import json
import re

from export.common.errors import InputError

# First bytes of files that are not UTF-8: their format, and what to do.
_BINARY = {
    b"PK\x03\x04": (
        "a zip archive, such as .docx, .odt, .xlsx or .epub",
        "save it as text or HTML",
    ),
    b"%PDF-": ("PDF", "extract its text"),
    b"\xd0\xcf\x11\xe0": ("a file of Office, such as .doc", "save it as text"),
    b"\x1f\x8b": ("gzip", "decompress it"),
    b"BZh": ("bzip2", "decompress it"),
    b"\xfd7zXZ": ("xz", "decompress it"),
    b"(\xb5/\xfd": ("zstd", "decompress it"),
    b"\x89PNG": ("a picture", "recognize its text"),
    b"\xff\xd8\xff": ("a picture", "recognize its text"),
    codecs.BOM_UTF16_LE: ("UTF-16", "convert it with iconv -f UTF-16"),
    codecs.BOM_UTF16_BE: ("UTF-16", "convert it with iconv -f UTF-16"),
}
# What the text begins with.
_BEGINNINGS = {
    "XML": r"<\?xml\s",
    "HTML": r"(?i)<(?:!doctype\s+html|html)[\s>]",
    "PDF": r"%PDF-",
    "RTF": r"\{\\rtf",
    "PostScript": r"%!PS",
    "a script": r"#!\s*/",
    "WebVTT": r"WEBVTT(?:\s|\Z)",
    "subtitles": r"(?:\d+\s*\n\d+:\d\d:\d\d[,.]\d+ +-->|\[Script Info\])",
    "a calendar or contact": r"BEGIN:V(?:CALENDAR|CARD)\s",
    "YAML": r"---\s*\n[\w.-]+:\s",
}
# Those that --format=html or xml reads.
MARKUP = ("HTML", "XML", "HTML or XML")
# What lines have, all of it in any order.
_LINES = (
    ("gettext's PO", r"^msgid\s+\"", r"^msgstr(?:\[\d\])?\s+\""),
    ("LaTeX", r"^ *\\(?:documentclass|begin\{\w+\*?\})"),
    ("reStructuredText", r"^\.\. [\w-]+::"),
    ("an e-mail with its header", r"^MIME-Version:\s", r"^From:\s"),
    # Fenced code, the line below the head of a table, a heading and emphasis.
    ("Markdown", r"^(?:```|~~~)[\w +-]*$"),
    ("Markdown", r"^\|?(?: *:?-{2,}:? *\|)+(?: *:?-{2,}:?)? *$"),
    ("Markdown", r"^#{1,6} \S", r"\]\([^()\s]+\)|\*\*\w|`[^`\n]+`"),
)
_ELEMENT = r"<[a-zA-Z][\w:.-]*(?:\s[^<>]*)?>"
_KEY = r"""(?:[\w$.\[\]/-]+|"(?:[^"\\]|\\.)+"|'[^']+')"""
_SETTING = re.compile(
    rf"\s*(?:[#;!].*|//.*|/\*.*|\[+[\w. -]+\]+|(?:- *)?(?P<key>{_KEY})"
    rf"(?:\s*(?P<equals>=)\s*.*|:(?:\s.*)?)|- .*)"
)
# A sentence may begin with a word and a colon.
_MIN_SETTINGS, _MIN_ROWS = 3, 3
_NAME = re.compile(r"[A-Za-z_][\w -]{0,40}")
_MAX_CHARS = 100_000


def detect_binary(content):
    """Returns the format of bytes and what to do; None for what may be text."""
    for start, description in _BINARY.items():
        if content.startswith(start):
            return description
    return None


def decode_document(content):
    """Returns the text of bytes in UTF-8; raises InputError for others."""
    try:
        text = content.decode("utf-8")
        if "\0" not in text:
            return text
        problem, advice = "it has NUL", "convert it with iconv"
    except UnicodeDecodeError as error:
        problem = f"{error.reason} at byte {error.start + 1}"
        advice = "convert it with iconv, for example"
    problem, advice = detect_binary(content) or (problem, advice)
    raise InputError(f"The input is not UTF-8 but {problem}: {advice} first.")


def detect_format(text):
    """Returns the name of the format of a text, or None for plain text."""
    text = text.strip("\ufeff \t\r\n")
    if _is_json(text):
        return "JSON"
    if re.match(_ELEMENT, text) and re.search(r"</[\w:.-]+>\Z", text[-99:]):
        return "HTML or XML"
    text = text[:_MAX_CHARS].replace("\r\n", "\n")
    for name, pattern in _BEGINNINGS.items():
        if re.match(pattern, text):
            return name
    lines = [line for line in text.split("\n") if line.strip()]
    if _has_settings(lines):
        return "a list of settings, such as YAML, INI or .properties"
    if any(_is_table(lines, delimiter) for delimiter in ",;\t"):
        return "CSV"
    for name, *patterns in _LINES:
        if all(re.search(each, text, re.MULTILINE) for each in patterns):
            return name
    return None


def _is_json(text):
    if not text.startswith(("{", "[")):
        return False
    # All of it may be longer than what was read.
    first, *lines = text.splitlines()
    start = "".join(line.strip() for line in lines[:9])
    if re.fullmatch(r"[\[{]+\s*", first) and re.match(
        r'[\[{]*"(?:[^"\\]|\\.)*" *[:,]', start
    ):
        return True
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            values = [json.loads(each) for each in (first, *lines) if each]
        except (ValueError, RecursionError):
            return False
    # Numbers in brackets are those of notes.
    return all(
        isinstance(value, (dict, list))
        and any(isinstance(each, (str, dict, list)) for each in value)
        for value in values
    )


def _has_settings(lines):
    """Whether all lines are settings, most of them of different keys."""
    keys, num_needed = [], _MIN_SETTINGS
    for line in lines:
        match = _SETTING.fullmatch(line)
        if match is None and not (keys and line[0].isspace()):
            return False
        if match is None or match["key"] is None:
            continue
        if match["equals"]:
            num_needed = _MIN_SETTINGS - 1
        elif match["key"][0].isupper():
            # The parts of a dialogue have the names of persons.
            return False
        keys.append((len(line) - len(line.lstrip()), match["key"]))
    return len(keys) >= num_needed and len(set(keys)) > len(keys) / 2


def _is_table(lines, delimiter):
    """Whether the lines are rows of cells below a row of names."""
    try:
        rows = [*csv.reader(lines, delimiter=delimiter, strict=True)]
    except csv.Error:
        return False
    return (
        len(rows) >= _MIN_ROWS
        and len(rows[0]) == len(set(rows[0])) > 1
        and all(_NAME.fullmatch(cell) for cell in rows[0])
        and all(len(row) == len(rows[0]) for row in rows)
    )
