"""CSV and TSV: cells of columns."""

import re

from export.common.errors import InputError
from export.formats.file_format import FileOptions, OpenFile, value_segment
from export.formats.files import Place, splice
from export.lines.file_formats import decode_document

_CSV_DELIMITERS = ",;\t|"


def open_csv(content: bytes, options: FileOptions) -> OpenFile:
    """Opens CSV, whose delimiter is the most frequent of its first line.

    Raises InputError for quotes that are not closed, and for columns that do
    not exist.
    """
    text = decode_document(content)
    # Not those within quotes.
    line = re.sub(r'"[^"]*"', "", text.lstrip("\r\n")).partition("\n")[0]
    return _open_table(text, max(_CSV_DELIMITERS, key=line.count), options)


def open_tsv(content: bytes, options: FileOptions) -> OpenFile:
    """Opens tab-separated values; see `open_csv`."""
    return _open_table(decode_document(content), "\t", options)


def _open_table(text, delimiter, options):
    rows = [*_read_rows(text, delimiter)]
    first = [text[slice(*cell)].strip(' "') for cell in rows[0]] if rows else []
    columns = _find_columns(first, options.columns)
    if any(not name.isdecimal() for name in options.columns):
        # The row of the names.
        rows = rows[1:]

    def place(start, end):
        raw = text[start:end]
        is_quoted = raw[:1] == raw[-1:] == '"' and len(raw) > 1
        value = raw[1:-1].replace('""', '"') if is_quoted else raw

        def encode(translation):
            special = f"[\r\n{delimiter}]"
            has_quote = '"' in translation and '"' not in value
            if is_quoted or has_quote or re.search(special, translation):
                doubled = translation.replace('"', '""')
                return f'"{doubled}"'
            return translation

        return Place(start, end, value_segment(value), encode)

    places = [
        place(start, end)
        for row in rows
        for index, (start, end) in enumerate(row)
        if (not options.columns or index in columns) and text[start:end].strip()
    ]
    return splice(text, places)


def _read_rows(text, delimiter):
    """Yields lists of the (start, end) of cells, quotes included."""
    end = rf"(?=[{delimiter}\r\n]|\Z)"
    cell = re.compile(
        rf'(?:"(?:[^"]|"")*+"{end}|([^{delimiter}\r\n]*))'
        rf"({delimiter if delimiter != '|' else '[|]'}|\r\n|\r|\n|\Z)"
    )
    row, position = [], int(text.startswith("\ufeff"))
    while position < len(text) or row:
        match = cell.match(text, position)
        # In TSV a quote may be a character of the text.
        if delimiter != "\t" and (match[1] or "").startswith('"'):
            line = text.count("\n", 0, position) + 1
            raise InputError(
                f"The quote that begins a cell in line {line} does not end "
                f"before a {delimiter!r} or a line end: double those within."
            )
        row.append((position, match.start(2)))
        position = match.end()
        if match[2] != delimiter:
            yield row
            row = []


def _find_columns(names, columns):
    """Returns the indices of columns; the first row may have their names."""
    indices = set()
    for column in columns:
        if column.isdecimal():
            index = int(column) - 1
        else:
            index = names.index(column) if column in names else -1
        if not 0 <= index < len(names):
            raise InputError(
                f"The table has no column {column!r}: expected a number from 1 "
                f"to {len(names)}, or one of {', '.join(names)}."
            )
        indices.add(index)
    return indices
