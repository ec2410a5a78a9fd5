"""Files of parallel text, written line by line and without duplicates."""

import contextlib
import hashlib
import sqlite3

from export.common.atomic_files import atomic_write
from export.common.errors import InputError


def drop_duplicates(pairs):
    """Yields each pair once, in order, with constant memory.

    Digests are stored in a temporary database on disk. Two pairs that differ
    have the same 128 bits with probability 1e-20 among 1e9 pairs.

    Args:
        pairs: iterable of tuples of str.

    Raises:
        InputError: the disk of temporary files is full.
    """
    try:
        # A file without a name, which goes with the process.
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
    """Writes rows of texts to one file for each column, atomically.

    Args:
        paths: list of pathlib.Path or UPath.
        rows: iterable of tuples of str, a text for each file.

    Returns:
        The number of rows.

    Raises:
        InputError: the system refused to write.
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
