"""Shards of pairs become the two files of a corpus."""

import contextlib
import dataclasses
import hashlib
import itertools

import numpy as np

from export.errors import InputError
from export.files.atomic import written_whole
from export.files.places import is_here, reason
from trainers.synthesis.duplicates import Duplicates
from trainers.synthesis.filters import Counts


def assemble(folder, shards, keys, options):
    """Writes `train.SOURCE` and `train.TARGET` whole.

    Args:
        folder: pathlib.Path or UPath.
        shards: ShardStore, all of them.
        keys: list of each shard's key.
        options: SynthesisOptions.

    Returns:
        (counts, outputs) as of Manifest.

    Raises:
        InputError: a shard is damaged, no pair is left, or the system refused
            to write.
    """
    counts = dataclasses.asdict(
        sum((made.counts for made in _read(shards, keys)), start=Counts())
    )
    kept = counts.pop("kept")
    repeated = np.zeros(kept, bool)
    if not options.keep_duplicates:
        finder = Duplicates(folder if is_here(folder) else None, kept)
        try:
            repeated = finder.find(_pairs(shards, keys))
        except OSError as error:
            raise InputError(
                f"Cannot write in {finder.folder}: {reason(error)}; make room, "
                "then run the same command again."
            ) from error
    counts["duplicate"] = int(repeated.sum())
    counts["written"] = kept - counts["duplicate"]
    if not counts["written"]:
        raise InputError(
            f"No pair is left: {format_counts(counts)}; give other lines or "
            "softer filters, and another --output_dir."
        )
    pairs = itertools.compress(_pairs(shards, keys), ~repeated)
    names = [
        f"train.{options.source_language}",
        f"train.{options.target_language}",
    ]
    return counts, _write(folder, names, pairs)


def format_counts(counts):
    """Returns what became of lines in a line of words.

    Args:
        counts: of Manifest.
    """
    words = [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join(words).replace("_", " ")


def _read(shards, keys):
    for number, key in enumerate(keys):
        made = shards.read(number, key)
        if made is None:
            raise InputError(
                f"Shard {number} in {shards.folder} is damaged or gone; run "
                "the same command again, which makes it anew."
            )
        yield made


def _pairs(shards, keys):
    for made in _read(shards, keys):
        yield from made.pairs


def _write(folder, names, pairs):
    """Writes the sides of pairs; returns the SHA-256 of each file's name."""
    digests = [hashlib.sha256() for _ in names]
    with contextlib.ExitStack() as stack:
        places = [
            stack.enter_context(written_whole(folder / name)) for name in names
        ]
        files = [stack.enter_context(place.open("wb")) for place in places]
        for pair in pairs:
            for file, digest, side in zip(files, digests, pair):
                line = f"{side}\n".encode()
                file.write(line)
                digest.update(line)
    return {name: each.hexdigest() for name, each in zip(names, digests)}
