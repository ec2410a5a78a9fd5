"""Output of which a stopped process leaves whole lines only."""

import os
import stat

from export.errors import InputError

# POSIX's least PIPE_BUF is 512, Linux has 4096: so much enters a pipe, or a
# file but for a stop between two of its pages, as a whole or not at all.
_BLOCK = 4096


class WholeLines:
    """Writes lines to an open file, whole lines at a time.

    Args:
        descriptor: of the file, open for writing.
        name: of the file, for messages.
    """

    def __init__(self, descriptor, name):
        self._descriptor = descriptor
        self._name = name

    def write(self, lines):
        """Writes lines.

        Args:
            lines: iterable of str, without their ends.

        Raises:
            InputError: the file cannot take them; it ends with a whole line.
            BrokenPipeError: nobody reads them any more.
        """
        block = b""
        for line in lines:
            line = line.encode("utf-8") + b"\n"
            if block and len(block) + len(line) > _BLOCK:
                self._write(block)
                block = b""
            block += line
        self._write(block)

    def _write(self, block):
        written = 0
        try:
            while written < len(block):
                written += os.write(self._descriptor, block[written:])
        except BrokenPipeError:
            raise
        except OSError as error:
            self._take_back(written)
            raise InputError(
                f"{self._name} cannot be written: {error.strerror}. It ends "
                "with a whole line."
            ) from error

    def _take_back(self, count):
        # Before its first write, a file that is added to stands at its start.
        if count and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.ftruncate(self._descriptor, end - count)
