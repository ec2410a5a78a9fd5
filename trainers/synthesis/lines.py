"""The lines to translate, and how they are cut into shards."""

import dataclasses
import hashlib
import itertools
import typing
from collections.abc import Callable, Iterable

from export.lines.files import read_lines


class Line(typing.NamedTuple):
    """A line to translate.

    Attributes:
        number: position in the input, from 0.
        text: stripped; "" for a blank line.
        reference: human translation; "" if there is none.
    """

    number: int
    text: str
    reference: str = ""


@dataclasses.dataclass(frozen=True)
class LineSource:
    """Where lines come from.

    Attributes:
        name: for messages.
        read: returns an iterator of (text, reference).
        has_references: whether lines have references.
    """

    name: str
    read: Callable[[], Iterable[tuple[str, str]]]
    has_references: bool


def text_source(path):
    """Returns the LineSource of a text file, plain or .gz, or its URL."""

    def read():
        return ((text.strip(), "") for text in read_lines(path))

    return LineSource(str(path), read, has_references=False)


def corpus_source(corpus, split, way):
    """Returns the LineSource of a Corpus, the other side as references.

    Args:
        corpus: Corpus.
        split: "train", "dev" or "test".
        way: "forward" for the corpus' sources, "backward" for its targets.
    """
    order = 1 if way == "forward" else -1

    def read():
        return (pair[::order] for pair in corpus.pairs(split))

    return LineSource(f"{corpus.name}, {split}", read, has_references=True)


class Shard(typing.NamedTuple):
    """Lines that one worker translates.

    Attributes:
        number: of the shard, from 0.
        key: hex digest of its lines.
        lines: tuple of Line.
    """

    number: int
    key: str
    lines: tuple[Line, ...]


def cut_into_shards(source, shard_lines):
    """Yields the Shards of a LineSource, of `shard_lines` lines each.

    Raises:
        InputError: the lines cannot be read.
    """
    lines = (Line(n, *pair) for n, pair in enumerate(source.read()))
    for number in itertools.count():
        chunk = tuple(itertools.islice(lines, shard_lines))
        if not chunk:
            return
        # No side contains a line break.
        content = "".join(f"{n}\n{text}\n{ref}\n" for n, text, ref in chunk)
        yield Shard(number, hashlib.sha256(content.encode()).hexdigest(), chunk)
