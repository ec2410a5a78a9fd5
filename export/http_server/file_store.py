"""Translated files, kept for a while for their download."""

import secrets
import threading
import time
import typing

_SECONDS = 1_800
_MAX_BYTES = 500_000_000


class StoredFile(typing.NamedTuple):
    """The name and the bytes of a file, and when it was stored."""

    name: str
    content: bytes
    time: float


class FileStore:
    """Files by a name that nobody can guess, for half an hour.

    The oldest are dropped first where they take more than 500 MB.
    """

    def __init__(self):
        # The oldest are first.
        self._files = {}
        self._num_bytes = 0
        self._lock = threading.Lock()

    def add(self, name: str, content: bytes) -> str:
        """Stores a file; returns its path, a secret and the name."""
        path = f"{secrets.token_urlsafe(16)}/{name}"
        with self._lock:
            self._files[path] = StoredFile(name, content, time.monotonic())
            self._num_bytes += len(content)
            for oldest in [*self._files]:
                if not self._is_old(self._files[oldest]):
                    break
                self._num_bytes -= len(self._files.pop(oldest).content)
        return path

    def find(self, path: str) -> StoredFile | None:
        """Returns the file of a path; None if it is unknown or dropped."""
        with self._lock:
            found = self._files.get(path)
        if found is None or time.monotonic() - found.time > _SECONDS:
            return None
        return found

    def _is_old(self, file):
        age = time.monotonic() - file.time
        return age > _SECONDS or self._num_bytes > _MAX_BYTES
