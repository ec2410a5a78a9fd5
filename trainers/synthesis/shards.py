"""Shards of lines to translate, their stored results, and the corpus."""

import collections
import contextlib
import hashlib
import itertools
import json
import sqlite3
import typing
from collections.abc import Callable, Iterable

from export.common.errors import InputError
from export.common.storage import (
    atomic_write,
    convert_remote_errors,
    explain_file_errors,
    remove_temporary_files,
)
from export.lines.files import read_lines

# Errors raised by files of any other form.
_INVALID = (OSError, ValueError, TypeError, KeyError, RecursionError)


class Line(typing.NamedTuple):
    """A stripped line; blank text, and a missing reference, is ""."""

    number: int
    text: str
    reference: str = ""


class LineSource(typing.NamedTuple):
    """Lines from a file or a corpus; `read` yields (text, reference)."""

    name: str
    read: Callable[[], Iterable[tuple[str, str]]]


def text_source(path):
    """Returns the LineSource of a text file or URL, plain or .gz."""

    def read():
        return ((text.strip(), "") for text in read_lines(path))

    return LineSource(str(path), read)


def corpus_source(corpus, split, direction):
    """Returns the LineSource of a corpus split; its other side is references.

    `direction` "forward" translates sources, "backward" targets.
    """

    def read():
        order = 1 if direction == "forward" else -1
        return (pair[::order] for pair in corpus.pairs(split))

    return LineSource(f"{corpus.name}, {split}", read)


class Shard(typing.NamedTuple):
    """Lines that one worker translates, and their hex digest."""

    number: int
    key: str
    lines: tuple[Line, ...]


def cut_into_shards(source, shard_lines):
    """Yields the Shards of a LineSource, of `shard_lines` lines each."""
    lines = (Line(n, *pair) for n, pair in enumerate(source.read()))
    for number in itertools.count():
        chunk = tuple(itertools.islice(lines, shard_lines))
        if not chunk:
            return
        # No side contains a line break.
        content = "".join(f"{n}\n{text}\n{ref}\n" for n, text, ref in chunk)
        yield Shard(number, hashlib.sha256(content.encode()).hexdigest(), chunk)


class ShardResult(typing.NamedTuple):
    """Pairs (source, target) in line order, and a Counter of outcomes."""

    counts: collections.Counter
    pairs: list[tuple[str, str]]


class ShardStore:
    """Files of translated shards in a folder (pathlib.Path or UPath)."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, shard, result):
        """Writes the ShardResult of a Shard atomically."""
        lines = map(_json_line, [result.counts, *result.pairs])
        content = "".join(lines).encode()
        digest = hashlib.sha256(content).hexdigest()
        header = {"key": shard.key, "sha256": digest}
        with atomic_write(self._path(shard.number)) as temporary:
            temporary.write_bytes(_json_line(header).encode() + content)

    def read(self, number, key):
        """Returns a ShardResult; None if missing, damaged or of another key."""
        try:
            with convert_remote_errors(self.folder):
                file = self._path(number).read_bytes()
            header, _, content = file.partition(b"\n")
            header = json.loads(header)
            digest = hashlib.sha256(content).hexdigest()
            if (header["key"], header["sha256"]) != (key, digest):
                return None
            counts, *pairs = map(json.loads, content.splitlines())
            counts = collections.Counter(counts)
            return ShardResult(counts, [tuple(pair) for pair in pairs])
        except _INVALID:
            return None

    def is_empty(self):
        """Returns whether there are no shards."""
        with explain_file_errors(self.folder):
            return not any(self.folder.glob("*.jsonl"))

    def remove(self):
        """Removes all shards, and the folder if that leaves it empty."""
        remove_temporary_files(self.folder, "*.jsonl")
        with explain_file_errors(self.folder):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _path(self, number):
        return self.folder / f"{number:07d}.jsonl"


def _json_line(content):
    # ASCII output escapes Unicode line breaks.
    return json.dumps(content) + "\n"


def assemble(paths, store, keys, keep_duplicates):
    """Writes a source and a target file; returns the number of pairs."""

    def pairs():
        for number, key in enumerate(keys):
            result = store.read(number, key)
            if result is None:
                raise InputError(
                    f"Shard {number} in {store.folder} is damaged or missing; "
                    "run the same command again, which translates it again."
                )
            yield from result.pairs

    rows = pairs() if keep_duplicates else drop_duplicates(pairs())
    return write_parallel(paths, rows)


def drop_duplicates(pairs):
    """Yields each distinct tuple of str once, in order, in constant memory.

    Stores 128-bit digests in a temporary database; among 1e9 pairs, a
    collision has probability 1e-20. InputError if the disk is full.
    """
    try:
        # An unnamed file, which is removed when the process ends.
        with contextlib.closing(sqlite3.connect("")) as seen:
            seen.execute("PRAGMA journal_mode = OFF")
            seen.execute("PRAGMA cache_size = -262144")  # KiB
            seen.execute("CREATE TABLE seen (digest PRIMARY KEY) WITHOUT ROWID")
            for pair in pairs:
                # No side contains a line break.
                content = "\n".join(pair).encode()
                digest = hashlib.blake2b(content, digest_size=16).digest()
                insert = "INSERT OR IGNORE INTO seen VALUES (?)"
                if seen.execute(insert, (digest,)).rowcount:
                    yield pair
    except sqlite3.OperationalError as error:
        raise InputError(
            f"Cannot write temporary files ({error}); make room in the folder "
            "that TMPDIR names, then run the same command again."
        ) from error


def write_parallel(paths, rows):
    """Writes tuples of texts, a file per column; returns their number."""
    count = 0
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(atomic_write(path)) for path in paths]
        files = [stack.enter_context(place.open("wb")) for place in places]
        for row in rows:
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n".encode())
            count += 1
    return count
