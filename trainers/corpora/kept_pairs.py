"""Pairs that take long to make and are read several times."""

import contextlib
import tempfile
import weakref
from collections.abc import Callable, Iterator

from export.errors import InputError

_MEGABYTE = 1 << 20


class KeptPairs:
    """Keeps pairs of texts in a temporary file, once all were made.

    Args:
        make: function that returns the pairs, an iterator; they hold neither
            tabs nor line breaks.
    """

    def __init__(self, make: Callable[[], Iterator[tuple[str, str]]]) -> None:
        self._make = make
        self._file = None

    def read(self) -> Iterator[tuple[str, str]]:
        """Streams the pairs, as often as it is called.

        Raises:
            InputError: the temporary file cannot be written, or as `make`.
        """
        return self._made() if self._file is None else self._kept()

    def _made(self):
        with contextlib.ExitStack() as stack:
            with _refusing_a_full_disk():
                file = stack.enter_context(tempfile.TemporaryFile())
            for pair in self._make():
                with _refusing_a_full_disk():
                    file.write("\t".join(pair).encode() + b"\n")
                yield pair
            with _refusing_a_full_disk():
                file.flush()
            self._file = file
            weakref.finalize(self, stack.pop_all().close)

    def _kept(self):
        # Several may read the file at once: each knows its own place.
        place = 0
        while True:
            self._file.seek(place)
            lines = self._file.readlines(_MEGABYTE)
            place = self._file.tell()
            if not lines:
                return
            for line in lines:
                source, target = line.decode().removesuffix("\n").split("\t")
                yield source, target


@contextlib.contextmanager
def _refusing_a_full_disk():
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Cannot write a temporary file: {error.strerror}; make room, or "
            "set TMPDIR to another folder."
        ) from error
