"""Fingerprints of data: short, and quick to take of large files."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from export.errors import InputError

_DIGITS = 16
_MEGABYTE = 1 << 20


def text_fingerprint(*parts: str) -> str:
    """Returns 16 hex digits for these strings in this order."""
    # The length in front keeps ("ab", "c") and ("a", "bc") apart.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:_DIGITS]


def file_fingerprint(paths: Iterable[Path]) -> str:
    """Returns 16 hex digits for these files in this order.

    Covers each file's name (without its folder), its size in bytes, and the
    bytes of its first and last MiB. A change in the middle of a file larger
    than 2 MiB that leaves its size as it was is not seen.

    Raises:
        InputError: a file cannot be read.
    """
    return text_fingerprint(*(_describe(path) for path in paths))


def _describe(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            digest.update(file.read(_MEGABYTE))
            file.seek(max(0, size - _MEGABYTE))
            digest.update(file.read(_MEGABYTE))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    return f"{path.name} {size} {digest.hexdigest()}"
