"""The lines to translate, and how they are cut into shards."""

import dataclasses
import hashlib
import itertools
import typing

from export.errors import InputError
from export.lines.files import read_lines


class Line(typing.NamedTuple):
    """What a worker is asked about.

    Attributes:
        number: its place in the input, from 0.
        text: without white space at its ends; "" for a blank line.
        reference: what a human made of it; "" where there is nothing.
    """

    number: int
    text: str
    reference: str = ""


class TextFile:
    """The lines of a text file.

    Args:
        path: of the file, plain or .gz.

    Attributes:
        name: what messages call it.
        has_references: whether lines have references.
    """

    has_references = False

    def __init__(self, path):
        self.name = str(path)

    def lines(self):
        """Yields Line.

        Raises:
            InputError: the file cannot be read, or is no text.
        """
        for number, text in enumerate(read_lines(self.name)):
            yield Line(number, text.strip())


class CorpusSide:
    """One side of a parallel corpus, the other as its reference.

    Args:
        corpus: Corpus.
        split: "train", "dev" or "test".
        way: of SynthesisOptions: "backward" for the targets, else the sources.

    Attributes:
        name: what messages call it.
        has_references: whether lines have references.
    """

    has_references = True

    def __init__(self, corpus, split, way):
        self.name = f"{corpus.name}, {split}"
        self._pairs = lambda: corpus.pairs(split)
        self._order = -1 if way == "backward" else 1

    def lines(self):
        """Yields Line.

        Raises:
            InputError: the corpus has no such split, or is broken.
        """
        for number, pair in enumerate(self._pairs()):
            yield Line(number, *pair[:: self._order])


@dataclasses.dataclass(frozen=True)
class Input:
    """What was read.

    Attributes:
        name: of the file, or of corpus and split.
        lines: how many there are.
        sha256: of all lines and references, hex.
    """

    name: str
    lines: int
    sha256: str


def fingerprint_lines(source):
    """Reads all lines once: which they are, and that all can be read.

    Args:
        source: TextFile or CorpusSide.

    Returns:
        Input.

    Raises:
        InputError: as of its `lines`.
    """
    count, digest = 0, hashlib.sha256()
    for line in source.lines():
        count += 1
        digest.update(_bytes(line))
    return Input(source.name, count, digest.hexdigest())


def reread_lines(source, before):
    """Yields the lines that were read before.

    Args:
        source: as for `fingerprint_lines`.
        before: Input of it.

    Yields:
        Line.

    Raises:
        InputError: at the end, that they are others; or as before.
    """
    digest = hashlib.sha256()
    for line in source.lines():
        digest.update(_bytes(line))
        yield line
    if digest.hexdigest() != before.sha256:
        raise InputError(
            f"{before.name} has changed while it was read; put back what was "
            "there and run the same command again, or begin anew in another "
            "--output_dir."
        )


class Job(typing.NamedTuple):
    """A shard of lines to be translated.

    Attributes:
        number: of the shard, from 0.
        key: hex digest of its lines.
        lines: tuple of Line.
    """

    number: int
    key: str
    lines: tuple[Line, ...]


def cut_into_shards(lines, shard_lines):
    """Cuts lines into shards.

    Args:
        lines: iterable of Line.
        shard_lines: lines of each shard but the last.

    Yields:
        Job.
    """
    lines = iter(lines)
    for number in itertools.count():
        chunk = tuple(itertools.islice(lines, shard_lines))
        if not chunk:
            return
        key = hashlib.sha256(b"".join(map(_bytes, chunk))).hexdigest()
        yield Job(number, key, chunk)


def _bytes(line):
    # Neither side holds a line break.
    return f"{line.number}\n{line.text}\n{line.reference}\n".encode()
