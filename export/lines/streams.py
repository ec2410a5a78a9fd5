"""Lines in, lines out: in order, in bounded memory, whole lines only."""

import contextlib
import itertools
import os
import pathlib
import select
import stat
import sys
import time

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.lines.files import DecodedLines

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
                try:
                    written += os.write(self._descriptor, block[written:])
                except BlockingIOError:
                    # Whoever shares the pipe has set it not to block.
                    select.select([], [self._descriptor], [])
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


# Lines read ahead and sorted by length together: little enough for any
# memory, enough for full batches. The first are few, so that they come soon.
_FIRST_CHUNK = 128
_CHUNK = 4096
# Seconds without a line after which those that are there are answered, and
# seconds after which they are answered though lines trickle in.
_PAUSE = 0.01
_LONGEST_WAIT = 1.0


def chunk_sizes():
    """Yields how many lines to take at a time."""
    size = _FIRST_CHUNK
    while True:
        yield size
        size = min(2 * size, _CHUNK)


def read_chunks(lines, sources):
    """Yields lists of lines, shorter ones where the input pauses.

    Args:
        lines: iterator of what the sources' lines make.
        sources: list of DecodedLines that it reads.
    """
    sizes = chunk_sizes()
    chunk, size = [], next(sizes)
    for line in lines:
        now = time.monotonic()
        if not chunk:
            latest = now + _LONGEST_WAIT
        chunk.append(line)
        deadline = min(now + _PAUSE, latest)
        if len(chunk) == size or not all(
            source.has_line(deadline) for source in sources
        ):
            yield chunk
            chunk, size = [], next(sizes)
    if chunk:
        yield chunk


def translate_lines(chunks, ask, line_format, write, number=0):
    """Translates lines.

    Args:
        chunks: iterable of lists of str, or of pairs of them.
        ask: function of such a list, that returns a list of lists of
            Translation.
        line_format: one of `export.lines.formats`.
        write: function of a list of lines of output.
        number: of the first line, from 0.

    Returns:
        The numbers, from 1, of the lines whose beginnings alone were
        translated: the first few, and how many there were.
    """
    first_cut, cut = [], 0
    for chunk in chunks:
        output = []
        for found in ask(chunk):
            output += line_format(number, found)
            number += 1
            if found[0].source_truncated:
                cut += 1
                first_cut = [*first_cut, number][:3]
        write(output)
    return first_cut, cut


def paired_lines(sources, others, flag):
    """Yields pairs of lines of two iterators.

    Args:
        sources: lines of --input.
        others: lines that go with them.
        flag: name of the flag that named their file.

    Raises:
        InputError: one has more lines.
    """
    missing = object()
    lines = itertools.zip_longest(sources, others, fillvalue=missing)
    for number, (source, other) in enumerate(lines, 1):
        if source is missing or other is missing:
            longer = flag if source is missing else "input"
            raise InputError(
                f"--{longer} has a line {number} and the other file has not; "
                f"--{flag} needs a line for each of --input."
            )
        yield source, other


# What names the standard streams.
_STANDARD = (None, "-")


def answer_lines(
    job, source, output, ask, line_format, beside=None, answered=0
):
    """Answers every line of a file or standard input, in order.

    Args:
        job: a word for the progress bar, such as "Translating".
        source: path to read; None or "-" for standard input.
        output: path to write; None or "-" for standard output.
        ask: function of a list of str and of what counts sentences (or None),
            that returns a list of lists of Translation.
        line_format: as for `translate_lines`.
        beside: name of a flag and path of its file, whose lines go with the
            source's: then `ask` is given a list of pairs. None for nothing.
        answered: how many lines of the source the output has the answers to
            already: they are passed over, and the output is added to.

    Raises:
        InputError: a file cannot be read or written.
        BrokenPipeError: nobody reads the output any more.
    """
    with contextlib.ExitStack() as stack:
        lines = DecodedLines(open_input(stack, source))
        sources, paths = [lines], [source]
        if beside is not None:
            flag, path = beside
            if source in _STANDARD and path in _STANDARD:
                raise InputError(
                    f"--input and --{flag} are both standard input; give one "
                    "of them a file."
                )
            others = open_input(stack, path, flag)
            sources.append(DecodedLines(others, f"--{flag}"))
            lines = paired_lines(*sources, flag)
            paths.append(path)
        how = os.O_TRUNC if answered == 0 else 0
        written = open_output(stack, output, *paths, how=how)
        on_progress = _progress(stack, job, output)
        lines = itertools.islice(lines, answered, None)
        cuts = translate_lines(
            read_chunks(lines, sources),
            lambda texts: ask(texts, on_progress),
            line_format,
            written.write,
            answered,
        )
    _tell_of_cuts(*cuts)


def open_input(stack, path, flag="input"):
    """Opens lines to read.

    Args:
        stack: contextlib.ExitStack that closes them.
        path: of the file; None or "-" for standard input.
        flag: name of the flag that named it, for messages.

    Returns:
        A binary stream.

    Raises:
        InputError: the file cannot be read.
    """
    if path in _STANDARD:
        if sys.stdin is None:
            raise InputError(f"Standard input is closed; give --{flag}=FILE.")
        return sys.stdin.buffer
    try:
        return stack.enter_context(pathlib.Path(path).open("rb"))
    except OSError as error:
        raise InputError(
            f"--{flag}={path} cannot be read: {error.strerror}."
        ) from error


def open_output(stack, path, *sources, how=os.O_TRUNC):
    """Opens a file for lines.

    Args:
        stack: contextlib.ExitStack that closes it.
        path: of the file; None or "-" for standard output.
        *sources: paths of files that are read meanwhile, as of `open_input`.
        how: os.O_TRUNC to write it anew, 0 to add to it.

    Returns:
        WholeLines.

    Raises:
        InputError: it is one of the files read, or cannot be written.
    """
    if path in _STANDARD:
        if sys.stdout is None:
            raise InputError("Standard output is closed; give --output=FILE.")
        return WholeLines(sys.stdout.fileno(), "Standard output")
    path = pathlib.Path(path)
    for source in sources:
        if _is_same_file(path, source):
            raise InputError(
                f"--output={path} is also what is read, which would be lost; "
                "name another --output."
            )
    how |= os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = os.open(path, how, 0o666)
    except OSError as error:
        raise InputError(
            f"--output={path} cannot be written: {error.strerror}."
        ) from error
    stack.callback(os.close, descriptor)
    return WholeLines(descriptor, str(path))


def _is_same_file(path, source):
    # Standard input may be closed, or no file of the system's.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if source in _STANDARD:
            read = os.fstat(sys.stdin.fileno())
        else:
            read = pathlib.Path(source).stat()
        return stat.S_ISREG(read.st_mode) and os.path.samestat(
            read, path.stat()
        )
    return False


def _progress(stack, job, output):
    """Returns what sentences are counted with, or None."""
    # A bar among the translations would make both unreadable.
    if output in _STANDARD and sys.stdout.isatty():
        return None
    return stack.enter_context(ProgressBar(job, None, "sentences")).update


def _tell_of_cuts(first_cut, cut):
    if not cut:
        return
    numbers = ", ".join(map(str, first_cut))
    more = f" and {cut - len(first_cut):,} more" if cut > len(first_cut) else ""
    print(
        "Longer than the model takes, and translated only as far: "
        f"{cut:,} of the lines ({numbers}{more}).",
        file=sys.stderr,
        flush=True,
    )
