"""Writes parallel text files, optionally without duplicate pairs."""

import contextlib
import hashlib
import sqlite3

from export.common.atomic_files import atomic_write
from export.common.errors import InputError


def drop_duplicates(pairs):
    """Yields each distinct tuple of str once, in order, in constant memory.

    Stores 128-bit digests in a temporary database; among 1e9 pairs, a
    collision has probability 1e-20. Raises InputError if the disk is full.
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
    """Writes tuples of texts, one file per column; returns their number.

    Files are written atomically; `paths` are pathlib.Path or UPath. Raises
    InputError if a file cannot be written.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(atomic_write(path)) for path in paths]
        files = [stack.enter_context(place.open("wb")) for place in places]
        for row in rows:
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n".encode())
            count += 1
    return count
