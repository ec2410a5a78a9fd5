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
# Regular expressions of the beginning of a text.
_TEXT_STARTS = {
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
# Formats that --format=html or xml reads.
MARKUP = ("HTML", "XML", "HTML or XML")
# Regular expressions of lines, all of which a text must have in any order.
_LINE_PATTERNS = (
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
# At the end, where an end tag is, and at the beginning, where a key is.
_MAX_TAG_CHARS, _MAX_KEY_LINES = 99, 9


def detect_binary(content: bytes) -> tuple[str, str] | None:
    """Returns the format of bytes and what to do; None for what may be text."""
    for start, description in _BINARY.items():
        if content.startswith(start):
            return description
    return None


def decode_document(content: bytes) -> str:
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


def detect_format(text: str) -> str | None:
    """Returns the name of the format of a text, or None for plain text."""
    text = text.strip("\ufeff \t\r\n")
    if text.startswith(("{", "[")) and (_has_json_key(text) or _is_json(text)):
        return "JSON"
    end = text[-_MAX_TAG_CHARS:]
    if re.match(_ELEMENT, text) and re.search(r"</[\w:.-]+>\Z", end):
        return "HTML or XML"
    text = text[:_MAX_CHARS].replace("\r\n", "\n")
    for name, pattern in _TEXT_STARTS.items():
        if re.match(pattern, text):
            return name
    lines = [line for line in text.split("\n") if line.strip()]
    if _has_settings(lines):
        return "a list of settings, such as YAML, INI or .properties"
    if any(_is_table(lines, delimiter) for delimiter in ",;\t"):
        return "CSV"
    for name, *patterns in _LINE_PATTERNS:
        if all(re.search(each, text, re.MULTILINE) for each in patterns):
            return name
    return None


def _has_json_key(text):
    """Whether a text, which may be cut, begins as JSON with a str or key."""
    lines = text.splitlines()[:_MAX_KEY_LINES]
    start = "".join(map(str.strip, lines))
    is_key = re.match(r'[\[{]*"(?:[^"\\]|\\.)*" *[:,]', start)
    return bool(is_key and re.fullmatch(r"[\[{]+\s*", lines[0]))


def _is_json(text):
    """Whether a text, or each of its lines, is JSON with more than numbers.

    "[1]" and "[2, 3]" are the numbers of notes.
    """
    try:
        values = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            values = [json.loads(each) for each in text.splitlines() if each]
        except (ValueError, RecursionError):
            return False
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
