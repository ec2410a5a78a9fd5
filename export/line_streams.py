"""What commands that read and write lines do alike."""

import contextlib
import itertools
import os
import pathlib
import stat
import sys

from export.errors import InputError
from export.progress_bar import ProgressBar
from export.translate_lines import (
    chunk_sizes,
    paired_lines,
    read_lines,
    translate_lines,
)
from export.whole_lines import WholeLines

# What a shell says of a process whose reader has gone: 128 + SIGPIPE.
READER_HAS_GONE = 141


def answer_lines(job, source, output, ask, line_format, beside=None):
    """Answers every line of a file or standard input, in order.

    Args:
        job: a word for the progress bar, such as "Translating".
        source: path to read; None for standard input.
        output: path to write; None for standard output.
        ask: function of a list of str and of what counts sentences (or None),
            that returns a list of lists of Translation.
        line_format: of `export.line_formats`.
        beside: name of a flag and path of its file, whose lines go with the
            source's: then `ask` is given a list of pairs. None for nothing.

    Returns:
        The command's exit code, or None for 0.

    Raises:
        InputError: a file cannot be read or written.
    """
    with contextlib.ExitStack() as stack:
        stream = open_input(stack, source)
        lines, paths = read_lines(stream), [source]
        if beside is not None:
            flag, path = beside
            others = read_lines(open_input(stack, path, flag), f"--{flag}")
            lines = paired_lines(lines, others, flag)
            paths.append(path)
        written = open_output(stack, output, *paths)
        on_progress = progress(stack, job, output)
        try:
            cuts = translate_lines(
                lines,
                lambda texts: ask(texts, on_progress),
                line_format,
                written.write,
                sizes_for(stream),
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


def open_output(stack, path, *sources):
    """Opens a file for lines, written anew.

    Args:
        stack: contextlib.ExitStack that closes it.
        path: of the file; None for standard output.
        *sources: paths of files that are read meanwhile; None for standard
            input.

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
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
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
