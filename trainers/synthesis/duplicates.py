"""Which pairs were there before: in memory that hardly grows with them."""

import contextlib
import hashlib
import tempfile

import numpy as np

_RECORD = np.dtype([("digest", "S16"), ("place", "<i8")])
# Records of a part, which is sorted in memory: 24 MB of them.
_PART = 1_000_000
# Each is an open file.
_MOST_PARTS = 256


class Duplicates:
    """Finds equal pairs by their digests, on a disk.

    Equal ones fall into the same of several files, and each file is then
    looked through by itself. Two pairs that differ have the same 128 bits
    with a chance of 1 in 10 ** 20 among 10 ** 9 of them.

    Args:
        folder: where the files may be, of this machine; they are gone
            afterwards. None for where temporary files are.
        count: about how many pairs there are.

    Attributes:
        folder: str, where they are.
    """

    def __init__(self, folder, count):
        self.folder = str(folder or tempfile.gettempdir())
        self._parts = min(count // _PART + 1, _MOST_PARTS)

    def find(self, pairs):
        """Looks through pairs once.

        Args:
            pairs: iterable of tuples of str.

        Returns:
            bool array, whether each was there before.

        Raises:
            OSError: the disk is full.
        """
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(tempfile.TemporaryFile(dir=self.folder))
                for _ in range(self._parts)
            ]
            count = self._sort_out(pairs, files)
            repeated = np.zeros(count, bool)
            for file in files:
                file.seek(0)
                records = np.frombuffer(file.read(), _RECORD)
                repeated[_repeated(records)] = True
        return repeated

    def _sort_out(self, pairs, files):
        count = 0
        for count, pair in enumerate(pairs, 1):
            digest = _digest(pair)
            part = int.from_bytes(digest[:4]) % len(files)
            record = digest + (count - 1).to_bytes(8, "little")
            files[part].write(record)
        return count


def _digest(pair):
    # No side holds a line break.
    return hashlib.blake2b("\n".join(pair).encode(), digest_size=16).digest()


def _repeated(records):
    """Returns the places of all but the first of equal records."""
    digests = records["digest"]
    # A stable sort leaves equal ones in the order they came in.
    order = np.argsort(digests, kind="stable")
    same = digests[order][1:] == digests[order][:-1]
    return records["place"][order[1:][same]]
