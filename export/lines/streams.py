"""Lines in, lines out: in order, in bounded memory, whole lines only."""

import contextlib
import itertools
import os
import pathlib
import stat
import sys

from export.errors import InputError
from export.lines.files import decoded_lines
from export.progress_bar import ProgressBar

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


# Lines read ahead and sorted by length together: little enough for any
# memory, enough for full batches. The first are few, so that they come soon.
_FIRST_CHUNK = 128
_CHUNK = 4096


def chunk_sizes():
    """Yields how many lines to take at a time."""
    size = _FIRST_CHUNK
    while True:
        yield size
        size = min(2 * size, _CHUNK)


def translate_lines(lines, ask, line_format, write, sizes, number=0):
    """Translates lines.

    Args:
        lines: iterator of str, or of pairs of them.
        ask: function of a list of these, that returns a list of lists of
            Translation.
        line_format: one of `export.lines.formats`.
        write: function of a list of lines of output.
        sizes: iterator of the numbers of lines to take at a time.
        number: of the first line, from 0.

    Returns:
        The numbers, from 1, of the lines whose beginnings alone were
        translated: the first few, and how many there were.
    """
    first_cut, cut = [], 0
    while chunk := list(itertools.islice(lines, next(sizes))):
        output = []
        for found in ask(chunk):
            output += line_format(number, found)
            number += 1
            if found[0].source_is_cut:
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


# What a shell says of a process whose reader has gone: 128 + SIGPIPE.
READER_HAS_GONE = 141


def answer_lines(
    job, source, output, ask, line_format, beside=None, answered=0
):
    """Answers every line of a file or standard input, in order.

    Args:
        job: a word for the progress bar, such as "Translating".
        source: path to read; None for standard input.
        output: path to write; None for standard output.
        ask: function of a list of str and of what counts sentences (or None),
            that returns a list of lists of Translation.
        line_format: as for `translate_lines`.
        beside: name of a flag and path of its file, whose lines go with the
            source's: then `ask` is given a list of pairs. None for nothing.
        answered: how many lines of the source the output has the answers to
            already: they are passed over, and the output is added to.

    Returns:
        The command's exit code, or None for 0.

    Raises:
        InputError: a file cannot be read or written.
    """
    with contextlib.ExitStack() as stack:
        stream = open_input(stack, source)
        lines, paths = decoded_lines(stream), [source]
        if beside is not None:
            flag, path = beside
            others = decoded_lines(open_input(stack, path, flag), f"--{flag}")
            lines = paired_lines(lines, others, flag)
            paths.append(path)
        how = os.O_TRUNC if answered == 0 else 0
        written = open_output(stack, output, *paths, how=how)
        on_progress = progress(stack, job, output)
        try:
            cuts = translate_lines(
                itertools.islice(lines, answered, None),
                lambda texts: ask(texts, on_progress),
                line_format,
                written.write,
                sizes_for(stream),
                answered,
            )
        except BrokenPipeError:
            return READER_HAS_GONE
    _tell_of_cuts(*cuts)
    return None


def open_input(stack, path, flag="input"):
    """Opens lines to read.

    Args:
        stack: contextlib.ExitStack that closes them.
        path: of the file; None for standard input.
        flag: name of the flag that named it, for messages.

    Returns:
        A binary stream.

    Raises:
        InputError: the file cannot be read.
    """
    if path is None:
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
        path: of the file; None for standard output.
        *sources: paths of files that are read meanwhile; None for standard
            input.
        how: os.O_TRUNC to write it anew, 0 to add to it.

    Returns:
        WholeLines.

    Raises:
        InputError: it is one of the files read, or cannot be written.
    """
    if path is None:
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
        if source is None:
            read = os.fstat(sys.stdin.fileno())
        else:
            read = pathlib.Path(source).stat()
        return stat.S_ISREG(read.st_mode) and os.path.samestat(
            read, path.stat()
        )
    return False


def sizes_for(source):
    """Yields how many lines to take at a time: one where somebody types."""
    return itertools.repeat(1) if source.isatty() else chunk_sizes()


def progress(stack, job, output):
    """Returns what sentences are counted with, or None.

    Args:
        stack: contextlib.ExitStack.
        job: a word such as "Translating".
        output: path of the output; None for standard output.
    """
    # A bar among the translations would make both unreadable.
    if output is None and sys.stdout.isatty():
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
