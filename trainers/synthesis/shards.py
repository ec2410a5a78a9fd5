"""Shards of pairs: each a file that is whole or not there."""

import dataclasses
import hashlib
import json

from export.files.atomic import remove_unfinished, written_whole
from export.files.places import explained, reached
from trainers.synthesis.filters import Counts
from trainers.synthesis.translation_job import ShardResult

# What reading a file of another form raises.
_NOT_OURS = (OSError, ValueError, TypeError, KeyError, RecursionError)


class ShardStore:
    """The shards in a folder.

    Args:
        folder: pathlib.Path or UPath; it need not exist.
    """

    def __init__(self, folder):
        self.folder = folder

    def write(self, job, made):
        """Writes a shard whole.

        Args:
            job: Job.
            made: ShardResult of it.

        Raises:
            InputError: the system refused to write.
        """
        lines = "".join(_line(pair) for pair in made.pairs).encode()
        header = {
            "key": job.key,
            "counts": dataclasses.asdict(made.counts),
            "sha256": hashlib.sha256(lines).hexdigest(),
        }
        with written_whole(self._path(job.number)) as temporary:
            temporary.write_bytes(_line(header).encode() + lines)

    def read(self, number, key):
        """Returns the ShardResult of a shard; None where it is to be made.

        That is where there is none, or it is damaged, or of other lines.

        Args:
            number: of the shard.
            key: hex digest of its lines.
        """
        try:
            with reached(self.folder):
                content = self._path(number).read_bytes()
            first, _, lines = content.partition(b"\n")
            header = json.loads(first)
            digest = hashlib.sha256(lines).hexdigest()
            if (header["key"], header["sha256"]) != (key, digest):
                return None
            pairs = [tuple(json.loads(line)) for line in lines.splitlines()]
            return ShardResult(Counts(**header["counts"]), pairs)
        except _NOT_OURS:
            return None

    def any(self):
        """Returns whether there are shards."""
        with explained(self.folder):
            return any(self.folder.glob("*.jsonl"))

    def clear(self):
        """Removes what a killed process left half written."""
        remove_unfinished(self.folder, "*.jsonl")

    def remove(self):
        """Removes all shards, and the folder where nothing else is in it."""
        self.clear()
        with explained(self.folder):
            for path in self.folder.glob("*.jsonl"):
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _path(self, number):
        return self.folder / f"{number:07d}.jsonl"


def _line(content):
    # ASCII: what some call a line break is written as an escape.
    return json.dumps(content) + "\n"
