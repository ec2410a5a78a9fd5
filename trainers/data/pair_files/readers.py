"""Reads sentence pairs of TSV, JSON lines, Parquet, Hugging Face data sets.

A reader yields (source, tuple of references). `languages` and `columns` are
those of source and target, `columns` may be None, and the reader calls
`skip(place, reason)` for a malformed pair.
"""

import contextlib
import functools
import itertools
import json
import pathlib
import textwrap
import typing
from collections.abc import Callable, Iterator

from export.common.errors import InputError
from export.common.storage import AnyPath, convert_remote_errors
from export.lines.files import read_lines

if typing.TYPE_CHECKING:
    import datasets

Row: typing.TypeAlias = tuple[str, tuple[str, ...]]
Sides: typing.TypeAlias = tuple[str, str]
Skip: typing.TypeAlias = Callable[[str, str], None]

_NUM_EXAMPLES = 5
_BATCH_SIZE = 1024
# Data sets such as OPUS-100 have {"translation": {"en": ..., "fr": ...}}.
_TRANSLATION = "translation"


class Skipped:
    """Counts malformed pairs; `examples` describes the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []

    def add(self, place: str, reason: str) -> None:
        """Counts a pair, such as ("line 3", "no text in fr")."""
        self.count += 1
        if len(self.examples) < _NUM_EXAMPLES:
            self.examples.append(f"{place}: {reason}")


@functools.lru_cache(1 << 10)
def find_side(name: str, languages: Sides) -> int | None:
    """Returns 0 or 1 if a code names the source or target, or None.

    A code names its own language, or else one that it is a variant of: en-US
    and en_us name en-US, or else en.
    """
    code, *codes = (
        each.replace("_", "-").lower() for each in (name, *languages)
    )
    if code in codes:
        return codes.index(code)
    for side, language in enumerate(codes):
        if code.startswith(f"{language}-"):
            return side
    return None


def read_tsv(
    path: AnyPath, languages: Sides, columns: Sides | None, skip: Skip
) -> Iterator[Row]:
    """Reads lines of columns with tabs between.

    Columns are numbers from 1, or names of the first line; by default the first
    line names the languages, or there are two columns.
    """
    with contextlib.closing(read_lines(path, verbatim=True)) as lines:
        first = next(lines, "")
        names = first.split("\t")
        (source, target), has_names = _find_columns(
            path, names, languages, columns
        )
        start = 2 if has_names else 1
        every = lines if has_names else itertools.chain([first], lines)
        for number, line in enumerate(every, start):
            cells = line.split("\t")
            if len(cells) == len(names):
                yield cells[source], (cells[target],)
            elif line:
                skip(
                    f"line {number:,}",
                    f"expected {len(names)} columns, got {len(cells)}",
                )


def _find_columns(path, names, languages, columns):
    """Returns ((source index, target index), whether `names` are names)."""
    sides = [find_side(name, languages) for name in names]
    if columns is None and {0, 1} <= {*sides}:
        return (sides.index(0), sides.index(1)), True
    if columns is not None and {*columns} <= {*names}:
        return tuple(map(names.index, columns)), True
    if columns is None and len(names) == 2:
        return (0, 1), False
    allowed = [*map(str, range(1, len(names) + 1))]
    if columns is not None and {*columns} <= {*allowed}:
        return tuple(map(allowed.index, columns)), False
    shown = textwrap.shorten(", ".join(names), 100, placeholder="…")
    raise InputError(
        f"The first line of {path} has {len(names)} columns ({shown}): choose "
        "those of source and target by number or name, as in "
        f"--dataset=tsv:{path}#1,2."
    )


def read_jsonl(
    path: AnyPath, languages: Sides, columns: Sides | None, skip: Skip
) -> Iterator[Row]:
    """Reads a JSON object per line, of the keys that `read_parquet` reads."""
    with contextlib.closing(read_lines(path, verbatim=True)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = _find_row(json.loads(line), languages, columns)
                if "\\u" in line:
                    # Half of a surrogate pair is a UnicodeEncodeError.
                    "".join((row[0], *row[1])).encode()
            except (ValueError, RecursionError) as error:
                skip(f"line {number:,}", str(error))
            else:
                yield row


def read_parquet(
    path: AnyPath, languages: Sides, columns: Sides | None, skip: Skip
) -> Iterator[Row]:
    """Reads columns named by language, or those of a column "translation".

    `columns` are names, such as "text" or, of a struct, "translation.en".
    """
    import pyarrow.parquet

    try:
        with convert_remote_errors(path), path.open("rb") as stream:
            file = pyarrow.parquet.ParquetFile(stream, buffer_size=1 << 20)
            batches = file.iter_batches(
                _BATCH_SIZE,
                columns=_used_columns(
                    file.schema_arrow.names, languages, columns
                ),
            )
            yield from _read_records(
                (batch.to_pylist() for batch in batches),
                languages,
                columns,
                skip,
            )
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        reason = textwrap.shorten(str(error), 200, placeholder="…")
        raise InputError(f"Cannot read {path} as Parquet: {reason}.") from error


def _used_columns(names, languages, columns):
    """Returns the names to read; all of them if none seems right."""
    if columns is None:
        used = [
            name
            for name in names
            if name == _TRANSLATION or find_side(name, languages) is not None
        ]
    else:
        starts = {f"{column}.".partition(".")[0] for column in columns}
        used = [name for name in names if name in (*starts, *columns)]
    return used or names


def open_hugging_face(
    location: str,
) -> "dict[str, dict[str, datasets.Dataset]]":
    """Returns {split: {name: data}} of a data set, prepared if needed.

    `location` is a name or folder, or name:configuration. InputError if the
    package cannot open it.
    """
    import datasets

    name, _, configuration = location.partition(":")
    # Files of `save_to_disk`, of several splits and of one.
    files = "dataset_dict.json", "state.json"
    is_saved = any(pathlib.Path(name, file).exists() for file in files)
    # Network, disk and third-party code may raise anything.
    try:
        if is_saved:
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, configuration or None)
    except Exception as error:
        reason = textwrap.shorten(f"{error}", 300, placeholder="…")
        raise InputError(
            f"Hugging Face datasets cannot open {location} ({reason}); give "
            "a name such as hf:Helsinki-NLP/opus-100:en-fr, or a folder."
        ) from error
    if isinstance(loaded, datasets.Dataset):
        loaded = {"train": loaded}
    names = {"train": "train", "dev": "validation", "test": "test"}
    return {
        split: {f"{name} of hf:{location}": loaded[name]}
        for split, name in names.items()
        if name in loaded
    }


def read_hugging_face(
    data: "datasets.Dataset",
    languages: Sides,
    columns: Sides | None,
    skip: Skip,
) -> Iterator[Row]:
    """Reads a split as `read_parquet`."""
    used = _used_columns(data.column_names, languages, columns)
    tables = data.select_columns(used).with_format("arrow").iter(_BATCH_SIZE)
    records = (table.to_pylist() for table in tables)
    yield from _read_records(records, languages, columns, skip)


def _read_records(batches, languages, columns, skip):
    records = itertools.chain.from_iterable(batches)
    for number, record in enumerate(records, 1):
        try:
            row = _find_row(record, languages, columns)
        except ValueError as error:
            skip(f"row {number:,}", str(error))
        else:
            yield row


def _find_row(record, languages, columns):
    """Returns the Row of an object; ValueError if it lacks a text."""
    if not isinstance(record, dict):
        raise ValueError("expected an object with a text of each language")
    texts = {}
    if columns is None:
        fields = record.get(_TRANSLATION)
        fields = fields if isinstance(fields, dict) else record
        for name, text in fields.items():
            side = find_side(name, languages)
            # Other columns are named en_score and the like.
            if side is None or not isinstance(text, str):
                continue
            if side not in texts or name == languages[side]:
                texts[side] = text
    else:
        for side, column in enumerate(columns):
            value = record
            for key in [column] if column in record else column.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            texts[side] = value
    for side, name in enumerate(columns or languages):
        if not isinstance(texts.get(side), str):
            keys = textwrap.shorten(", ".join(record), 60, placeholder="…")
            raise ValueError(f"no text in {name}; the keys are {keys}")
    return texts[0], (texts[1],)
