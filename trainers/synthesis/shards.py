"""Shards of lines to translate, their stored results, and the corpus."""

import collections
import contextlib
import hashlib
import itertools
import json
import sqlite3
import typing
from collections.abc import Callable, Iterable, Iterator

from export.common.errors import InputError
from export.common.storage import (
    AnyPath,
    atomic_write,
    convert_remote_errors,
    explain_file_errors,
    remove_temporary_files,
    write_bytes,
)
from export.lines.files import clean_line, read_lines

if typing.TYPE_CHECKING:
    from trainers.data.corpus import Corpus


class Line(typing.NamedTuple):
    """A stripped line; blank text, and a missing reference, is ""."""

    index: int  # type: ignore[assignment]
    text: str
    reference: str = ""


class LineSource(typing.NamedTuple):
    """Lines from a file or a corpus; `read` yields (text, reference)."""

    name: str
    read: Callable[[], Iterable[tuple[str, str]]]


def text_source(path: "str | AnyPath") -> LineSource:
    """Returns the LineSource of a text file or URL, plain or .gz."""

    def read():
        return ((clean_line(text), "") for text in read_lines(path))

    return LineSource(str(path), read)


def corpus_source(corpus: "Corpus", split: str, direction: str) -> LineSource:
    """Returns the LineSource of a corpus split, with references.

    `direction` "forward" translates sources, "backward" targets.
    """

    def read():
        pairs = corpus.pairs(split)
        if direction == "backward":
            return ((target, source) for source, target in pairs)
        return pairs

    return LineSource(f"{corpus.name}, {split}", read)


class Shard(typing.NamedTuple):
    """Lines that one worker translates, and their SHA-256 in hex."""

    index: int  # type: ignore[assignment]
    sha256: str
    lines: tuple[Line, ...]


def cut_into_shards(source: LineSource, shard_lines: int) -> Iterator[Shard]:
    """Yields the Shards of a LineSource, of `shard_lines` lines each."""
    lines = (Line(index, *pair) for index, pair in enumerate(source.read()))
    for index in itertools.count():
        chunk = tuple(itertools.islice(lines, shard_lines))
        if not chunk:
            return
        # No side contains a line break.
        content = "".join(f"{n}\n{text}\n{ref}\n" for n, text, ref in chunk)
        yield Shard(index, hashlib.sha256(content.encode()).hexdigest(), chunk)


class ShardResult(typing.NamedTuple):
    """Pairs (source, target) in line order, and a Counter of outcomes."""

    counts: collections.Counter[str]
    pairs: list[tuple[str, str]]


class ShardStore:
    """Files of translated shards in a folder (pathlib.Path or UPath)."""

    def __init__(self, folder: AnyPath):
        self.folder = folder

    def write(self, shard: Shard, result: ShardResult) -> None:
        """Writes the ShardResult of a Shard atomically."""
        lines = map(_json_line, [result.counts, *result.pairs])
        content = "".join(lines).encode()
        content = _header(shard.sha256, content) + content
        write_bytes(self._path(shard.index), content)

    def read(self, index: int, lines_sha256: str) -> ShardResult | None:
        """Returns a ShardResult; None if missing, damaged or of other lines."""
        try:
            with convert_remote_errors(self.folder):
                file = self._path(index).read_bytes()
            header, line_end, content = file.partition(b"\n")
            if header + line_end != _header(lines_sha256, content):
                return None
            counts, *pairs = map(json.loads, content.splitlines())
            return ShardResult(
                collections.Counter(counts), [tuple(pair) for pair in pairs]
            )
        # Missing files, malformed JSON and unexpected types.
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def is_empty(self) -> bool:
        """Returns whether there are no shards."""
        with explain_file_errors(self.folder):
            return not any(self.folder.glob("*.jsonl"))

    def remove(self) -> None:
        """Removes all shards, and the folder if that leaves it empty."""
        remove_temporary_files(self.folder, "*.jsonl")
        with explain_file_errors(self.folder):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _path(self, index):
        return self.folder / f"{index:07d}.jsonl"


def _header(lines_sha256, content):
    """Returns the first line of a shard's file, with checksums."""
    digest = hashlib.sha256(content).hexdigest()
    return _json_line({"lines": lines_sha256, "content": digest}).encode()


def _json_line(content):
    # ASCII output escapes Unicode line breaks.
    return json.dumps(content) + "\n"


def write_corpus(
    paths: Iterable[AnyPath],
    store: ShardStore,
    digests: Iterable[str],
    keep_duplicates: bool,
) -> int:
    """Writes the pairs of shards with these SHA-256; returns the pair count."""

    def pairs():
        for index, digest in enumerate(digests):
            result = store.read(index, digest)
            if result is None:
                raise InputError(
                    f"Shard {index} in {store.folder} is damaged or missing; "
                    "run the same command again, which translates it again."
                )
            yield from result.pairs

    rows = pairs() if keep_duplicates else drop_duplicates(pairs())
    return write_parallel(paths, rows)


def drop_duplicates(
    pairs: Iterable[tuple[str, ...]],
) -> Iterator[tuple[str, ...]]:
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


def write_parallel(
    paths: Iterable[AnyPath], rows: Iterable[Iterable[str]]
) -> int:
    """Writes tuples of texts, one file per column; returns the row count."""
    num_rows = 0
    with contextlib.ExitStack() as stack:
        temporary = [stack.enter_context(atomic_write(path)) for path in paths]
        files = [stack.enter_context(path.open("wb")) for path in temporary]
        for row in rows:
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n".encode())
            num_rows += 1
    return num_rows
