"""Answers lines in order, in bounded memory; writes complete lines only."""

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
from export.lines.files import DecodedLines, join_lines, read_lines

# Linux' PIPE_BUF: writes of at most this many bytes to a pipe are atomic.
_BLOCK = 4096
# Lines in a chunk, which is sorted by length to fill batches. The first chunks
# are small, for an early answer.
_FIRST_CHUNK = 128
_CHUNK = 4096
# Seconds without a line after which a chunk is answered, and seconds after
# which it is answered although lines keep coming.
_PAUSE = 0.01
_MAX_WAIT = 1.0
_STANDARD = (None, "-")


def line_format(several=False, scores=False, alignments=False):
    """Returns the format of output lines.

    It is a function of a sentence's number, from 0, and of its Translations,
    best first, that returns lines: for `several` Moses' n-best list, "number
    ||| text ||| score"; else the best translation's score, text and alignment
    in Pharaoh's format ("0-0 1-2"), separated by tabs.
    """

    def n_best_list(number, translations):
        return [
            f"{number} ||| {_text(each)} ||| {each.score:.6f}"
            for each in translations
        ]

    def best_columns(number, translations):
        del number
        best = translations[0]
        columns = [_text(best)]
        if scores:
            columns.insert(0, f"{best.score:.6f}")
        if alignments:
            columns.append(" ".join(f"{a}-{b}" for a, b in best.alignment))
        return ["\t".join(columns)]

    return n_best_list if several else best_columns


def _text(translation):
    # Tabs separate columns.
    return join_lines(translation.text).replace("\t", " ")


class LineWriter:
    """Writes complete lines to an open descriptor of the file `name`."""

    def __init__(self, descriptor, name):
        self._descriptor = descriptor
        self._name = name

    def write(self, lines):
        """Writes an iterable of str without line ends.

        Raises InputError if the file cannot be written, which then ends with a
        complete line, and BrokenPipeError if the reader closed the pipe.
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
        while written < len(block):
            try:
                written += os.write(self._descriptor, block[written:])
            except BlockingIOError:
                # Another process made the shared pipe non-blocking.
                select.select([], [self._descriptor], [])
            except BrokenPipeError:
                raise
            except OSError as error:
                self._remove_last(written)
                raise InputError(
                    f"{self._name} cannot be written: {error.strerror}. It "
                    "ends with a complete line."
                ) from error

    def _remove_last(self, count):
        # A file opened to append is at its start until the first write.
        if count and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.ftruncate(self._descriptor, end - count)


def read_chunks(lines, sources):
    """Yields lists of lines, shorter ones when the DecodedLines pause."""
    chunk, size = [], _FIRST_CHUNK
    for line in lines:
        now = time.monotonic()
        if not chunk:
            latest = now + _MAX_WAIT
        chunk.append(line)
        deadline = min(now + _PAUSE, latest)
        if len(chunk) == size or not all(
            source.has_line(deadline) for source in sources
        ):
            yield chunk
            chunk, size = [], min(2 * size, _CHUNK)
    if chunk:
        yield chunk


def process_chunks(chunks, translate, to_lines, write, number=0):
    """Translates chunks of lines and writes the output of each.

    `number` is that of the first line, from 0; see `process_lines` for the
    functions. Returns the numbers, from 1, of the first three lines with
    truncated sources, and the number of such lines.
    """
    first, count = [], 0
    for chunk in chunks:
        output = []
        for translations in translate(chunk):
            output += to_lines(number, translations)
            number += 1
            if translations[0].source_truncated:
                count += 1
                first = [*first, number][:3]
        write(output)
    return first, count


def pair_lines(sources, others, flag):
    """Yields pairs of lines of --input and of the file that `flag` names."""
    missing = object()
    lines = itertools.zip_longest(sources, others, fillvalue=missing)
    for number, (source, other) in enumerate(lines, 1):
        if source is missing or other is missing:
            longer = flag if source is missing else "input"
            raise InputError(
                f"--{longer} has a line {number} and the other file does not; "
                f"--{flag} needs a line for each of --input."
            )
        yield source, other


def process_lines(
    job, source, output, answer, to_lines, parallel=None, answered=0
):
    """Answers every line of a file or standard input, in order.

    `source` and `output` are paths; None or "-" is standard input or output.
    `answer` is a function of a list of str and of a progress function (or None)
    that returns lists of Translation, `to_lines` one from `line_format`. With
    `parallel`, the flag and path of a file parallel to the source, it gets
    pairs. The first `answered` lines are skipped, and the output is appended
    to. Raises InputError if a file cannot be read or written, BrokenPipeError
    if the reader of the output has closed the pipe.
    """
    with contextlib.ExitStack() as stack:
        lines = DecodedLines(_open_input(stack, source, "input"))
        sources, paths = [lines], [source]
        if parallel is not None:
            flag, path = parallel
            if source in _STANDARD and path in _STANDARD:
                raise InputError(
                    f"--input and --{flag} are both standard input; give one "
                    "of them a file."
                )
            others = _open_input(stack, path, flag)
            sources.append(DecodedLines(others, f"--{flag}"))
            lines = pair_lines(*sources, flag)
            paths.append(path)
        writer = _open_output(stack, output, paths, append=answered > 0)
        on_progress = None
        # A bar between the answers would make both unreadable.
        if output not in _STANDARD or not sys.stdout.isatty():
            bar = stack.enter_context(ProgressBar(job, None, "sentences"))
            on_progress = bar.update
        first, count = process_chunks(
            read_chunks(itertools.islice(lines, answered, None), sources),
            lambda texts: answer(texts, on_progress),
            to_lines,
            writer.write,
            answered,
        )
    if count:
        numbers = ", ".join(map(str, first))
        more = f" and {count - len(first):,} more" if count > len(first) else ""
        print(
            f"Truncated to the model's maximum length: {count:,} of the lines "
            f"({numbers}{more}).",
            file=sys.stderr,
            flush=True,
        )


def _open_input(stack, path, flag):
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


def _open_output(stack, path, sources, append):
    if path in _STANDARD:
        if sys.stdout is None:
            raise InputError("Standard output is closed; give --output=FILE.")
        return LineWriter(sys.stdout.fileno(), "Standard output")
    path = pathlib.Path(path)
    for source in sources:
        if _is_same_file(path, source):
            raise InputError(
                f"--output={path} is also an input and would be overwritten; "
                "name another --output."
            )
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = os.open(path, mode | (0 if append else os.O_TRUNC), 0o666)
    except OSError as error:
        raise InputError(
            f"--output={path} cannot be written: {error.strerror}."
        ) from error
    stack.callback(os.close, descriptor)
    return LineWriter(descriptor, str(path))


def _is_same_file(path, source):
    # Standard input may be closed, or not a file of the system.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if source in _STANDARD:
            read = os.fstat(sys.stdin.fileno())
        else:
            read = pathlib.Path(source).stat()
        return stat.S_ISREG(read.st_mode) and os.path.samestat(
            read, path.stat()
        )
    return False


def count_processed_lines(source, output, has_answer, fits):
    """Returns the number of input lines that already have output.

    Removes the incomplete last line that a stopped command left in `output`,
    which need not exist. Raises InputError if a file cannot be read or
    written, or the output belongs to another source.

    `has_answer(line)` tells whether an input line gives a line of output, and
    `fits(line, answer)` whether a line of output answers it.
    """
    path = pathlib.Path(output)
    if not path.exists():
        return 0
    lines = (
        (number, line)
        for number, line in enumerate(read_lines(source), 1)
        if has_answer(line)
    )
    number, line, answer, size = 0, "", b"", 0
    try:
        with path.open("rb") as stream:
            for complete in itertools.takewhile(_is_complete, stream):
                number, line = next(lines, (None, ""))
                answer, size = complete, size + len(complete)
        text = answer.decode("utf-8", "replace").removesuffix("\n")
        if number is None or (answer and not fits(line, text)):
            raise InputError(
                f"--output={output} does not hold the answers to the beginning "
                f"of --input={source}; give the same flags as before, or name "
                "another --output."
            )
        os.truncate(path, size)
    except OSError as error:
        raise InputError(
            f"--output={output} cannot be resumed: {error.strerror}."
        ) from error
    return number


def _is_complete(line):
    return line.endswith(b"\n")
