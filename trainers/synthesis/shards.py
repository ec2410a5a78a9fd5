"""Translated shards on disk, and the corpus that is assembled from them."""

import collections
import hashlib
import json
import typing

from export.errors import InputError
from export.files.atomic import remove_unfinished, written_whole
from export.files.places import explained, reached
from trainers.synthesis.parallel_text import drop_duplicates, write_parallel

# What a file of another form raises.
_INVALID = (OSError, ValueError, TypeError, KeyError, RecursionError)


class ShardResult(typing.NamedTuple):
    """The pairs of a shard.

    Attributes:
        counts: collections.Counter of what became of its lines.
        pairs: list of (source, target), in the order of the lines.
    """

    counts: collections.Counter
    pairs: list[tuple[str, str]]


class ShardStore:
    """Files of translated shards in a folder (pathlib.Path or UPath)."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, shard, result):
        """Writes the ShardResult of a Shard atomically."""
        lines = "".join(map(_json_line, result.pairs)).encode()
        header = {
            "key": shard.key,
            "counts": result.counts,
            "sha256": hashlib.sha256(lines).hexdigest(),
        }
        with written_whole(self._path(shard.number)) as temporary:
            temporary.write_bytes(_json_line(header).encode() + lines)

    def read(self, number, key):
        """Returns the ShardResult of a shard.

        It is None if the file is missing, damaged, or of lines with another
        key.
        """
        try:
            with reached(self.folder):
                content = self._path(number).read_bytes()
            first, _, lines = content.partition(b"\n")
            header = json.loads(first)
            digest = hashlib.sha256(lines).hexdigest()
            if (header["key"], header["sha256"]) != (key, digest):
                return None
            counts = collections.Counter(header["counts"])
            pairs = [tuple(json.loads(line)) for line in lines.splitlines()]
            return ShardResult(counts, pairs)
        except _INVALID:
            return None

    def is_empty(self):
        """Returns whether there is no shard."""
        with explained(self.folder):
            return not any(self.folder.glob("*.jsonl"))

    def remove_unfinished(self):
        """Removes files that a killed process did not finish."""
        remove_unfinished(self.folder, "*.jsonl")

    def remove(self):
        """Removes all shards, and the folder if it is empty then."""
        self.remove_unfinished()
        with explained(self.folder):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _path(self, number):
        return self.folder / f"{number:07d}.jsonl"


def _json_line(content):
    # ASCII: other line breaks are escaped.
    return json.dumps(content) + "\n"


def assemble(paths, store, keys, keep_duplicates):
    """Writes the pairs of all shards, sources and targets.

    Args:
        paths: of the two files, pathlib.Path or UPath.
        store: ShardStore.
        keys: list of the shards' keys.
        keep_duplicates: whether repeated pairs are written.

    Returns:
        The number of pairs written.

    Raises:
        InputError: a shard is damaged, or the system refused to write.
    """

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
