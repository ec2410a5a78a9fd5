"""Translates lines in order, in bounded memory; writes complete lines only."""

import contextlib
import itertools
import os
import pathlib
import select
import stat
import sys
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import error_reason
from export.lines.file_formats import decode_document
from export.lines.files import DecodedLines, join_lines, read_lines

# Linux' PIPE_BUF: writes of at most this many bytes to a pipe are atomic.
_MAX_WRITE_BYTES = 4096
# Lines in a chunk, which is sorted by length to fill batches. The first chunks
# are small, for early output.
_FIRST_CHUNK_SIZE, _MAX_CHUNK_SIZE = 128, 4096
# A chunk is translated after this time without a line, or after the maximum.
_PAUSE_SECONDS, _MAX_WAIT_SECONDS = 0.01, 1.0
# Paths of standard input and output.
_STANDARD = (None, "-")
# Gets the index of a sentence, and its Translations.
LineFormat: typing.TypeAlias = Callable[[int, Sequence[typing.Any]], list[str]]
_Progress: typing.TypeAlias = Callable[[int], object] | None
_Line = typing.TypeVar("_Line")


def line_format(
    is_n_best: bool = False,
    scores: bool = False,
    alignments: bool = False,
    confidence: bool = False,
    suspect: bool = False,
) -> LineFormat:
    """Returns the format of output lines.

    It is a function of a sentence's index and of its Translations, best first,
    that returns lines: Moses' n-best list, "index ||| text ||| score", or the
    best translation's score, text, alignment in Pharaoh's format ("0-0 1-2"),
    words' log-probabilities and `suspect`, separated by tabs.
    """

    def format_n_best(index, translations):
        return [
            f"{index} ||| {_one_column(each.text)} ||| {each.score:.6f}"
            for each in translations
        ]

    def format_best(index, translations):
        del index
        best = translations[0]
        columns = [_one_column(best.text)]
        if scores:
            columns.insert(0, f"{best.score:.6f}")
        if alignments:
            columns.append(" ".join(f"{a}-{b}" for a, b in best.alignment))
        if confidence:
            columns.append(" ".join(f"{p:.3f}" for p in best.word_log_probs))
        if suspect:
            columns.append(best.suspect)
        return ["\t".join(columns)]

    return format_n_best if is_n_best else format_best


def _one_column(text):
    return join_lines(text).replace("\t", " ")


class LineWriter:
    """Writes complete lines to an open descriptor of the file `name`."""

    def __init__(self, descriptor: int, name: str):
        self._descriptor = descriptor
        self._name = name

    def write(self, lines: Iterable[str]) -> None:
        """Writes lines, which have no line ends.

        Raises InputError if the file cannot be written, which then ends with a
        complete line, and BrokenPipeError if the reader closed the pipe.
        """
        block = b""
        for text in lines:
            line = text.encode("utf-8") + b"\n"
            if block and len(block) + len(line) > _MAX_WRITE_BYTES:
                self._write(block)
                block = b""
            block += line
        self._write(block)

    def write_text(self, text: str) -> None:
        """Writes text as it is; raises as `write`."""
        self._write(text.encode("utf-8"))

    def _write(self, block):
        written, block = 0, memoryview(block)
        while written < len(block):
            try:
                written += os.write(self._descriptor, block[written:])
            except BlockingIOError:
                # Another process made the shared pipe non-blocking.
                select.select([], [self._descriptor], [])
            except BrokenPipeError:
                raise
            except OSError as error:
                self._remove_last_bytes(written)
                raise InputError(
                    f"{self._name} cannot be written: {error.strerror}. It "
                    "ends with a complete line."
                ) from error

    def _remove_last_bytes(self, count):
        # A file opened to append is at its start until the first write.
        if count and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.ftruncate(self._descriptor, end - count)


def read_chunks(
    lines: Iterable[_Line], sources: Sequence[DecodedLines]
) -> Iterator[list[_Line]]:
    """Yields lists of lines, shorter ones when the DecodedLines pause."""
    chunk: list[_Line] = []
    size = _FIRST_CHUNK_SIZE
    for line in lines:
        now = time.monotonic()
        if not chunk:
            latest = now + _MAX_WAIT_SECONDS
        chunk.append(line)
        deadline = min(now + _PAUSE_SECONDS, latest)
        if len(chunk) == size or not all(
            source.has_line(deadline) for source in sources
        ):
            yield chunk
            chunk, size = [], min(2 * size, _MAX_CHUNK_SIZE)
    if chunk:
        yield chunk


def process_chunks(
    chunks: Iterable[list[_Line]],
    translate: Callable[[list[_Line]], Iterable[Sequence[typing.Any]]],
    format_lines: LineFormat,
    write: Callable[[list[str]], object],
    index: int = 0,
) -> tuple[int, list[int]]:
    """Translates chunks of lines and writes the output of each.

    `index` is that of the first line; see `process_lines` for the functions.
    Returns the number of truncated lines, and the first three line numbers.
    """
    num_truncated = 0
    examples: list[int] = []
    for chunk in chunks:
        output: list[str] = []
        for translations in translate(chunk):
            output += format_lines(index, translations)
            index += 1
            if translations[0].source_truncated:
                num_truncated += 1
                examples = [*examples, index][:3]
        write(output)
    return num_truncated, examples


def print_line_warning(
    message: str, num_lines: int, examples: Sequence[object]
) -> None:
    """Prints a message, the number of lines and some of them to stderr."""
    if num_lines:
        shown = ", ".join(map(str, examples))
        if num_lines > len(examples):
            shown += f" and {num_lines - len(examples):,} more"
        print(
            f"{message}: {num_lines:,} of the lines ({shown}).",
            file=sys.stderr,
            flush=True,
        )


def pair_lines(
    lines: Iterable[str], others: Iterable[str], flag: str
) -> Iterator[tuple[str, str]]:
    """Yields pairs of lines of --input and of the file of another flag."""
    missing: typing.Any = object()
    pairs = itertools.zip_longest(lines, others, fillvalue=missing)
    for number, (line, other) in enumerate(pairs, 1):
        if line is missing or other is missing:
            longer = flag if line is missing else "input"
            raise InputError(
                f"--{longer} has a line {number} and the other file does not; "
                f"--{flag} needs a line for each of --input."
            )
        yield line, other


def process_lines(
    description: str,
    input_path: str | None,
    output_path: str | None,
    translate: Callable[[list, _Progress], Iterable[Sequence[typing.Any]]],
    format_lines: LineFormat,
    parallel: tuple[str, str] | None = None,
    num_processed: int = 0,
) -> None:
    """Translates every line of a file or standard input, in order.

    A path None or "-" is standard input or output. `translate` is a function of
    a list of str and of a progress function (or None) that returns lists of
    Translation, `format_lines` one from `line_format`. With `parallel`, the
    flag and path of a file parallel to the input, `translate` gets pairs of
    lines. If the first `num_processed` lines were translated before, they are
    skipped, and the output is appended. Raises InputError if a file cannot be
    read or written, BrokenPipeError if the reader closed the output's pipe.
    """
    with contextlib.ExitStack() as stack:
        lines: typing.Any = DecodedLines(
            _open_input(stack, input_path, "input")
        )
        sources, paths = [lines], [input_path]
        if parallel is not None:
            flag, path = parallel
            if input_path in _STANDARD and path in _STANDARD:
                raise InputError(
                    f"--input and --{flag} are both standard input; give one "
                    "of them a file."
                )
            others = DecodedLines(_open_input(stack, path, flag), f"--{flag}")
            sources.append(others)
            paths.append(path)
            lines = pair_lines(lines, others, flag)
        writer = _open_output(stack, output_path, paths, num_processed > 0)
        on_progress = _show_progress(stack, description, output_path)
        num_truncated, examples = process_chunks(
            read_chunks(itertools.islice(lines, num_processed, None), sources),
            lambda chunk: translate(chunk, on_progress),
            format_lines,
            writer.write,
            num_processed,
        )
    print_line_warning(
        "Truncated to the model's maximum length", num_truncated, examples
    )


def process_document(
    description: str,
    input_path: str | None,
    output_path: str | None,
    translate: Callable[[str, _Progress], str],
) -> None:
    """Translates a whole file or standard input; see `process_lines`.

    `translate` is a function of a str and of a progress function (or None) that
    returns a str. The output is unchanged if it fails. Raises InputError if the
    input is not UTF-8.
    """
    is_new = not (
        output_path in _STANDARD or pathlib.Path(output_path).exists()
    )
    with contextlib.ExitStack() as stack:
        stream = _open_input(stack, input_path, "input")
        if is_new:
            stack.push(_remove_after_error(output_path))
        # Only to see that it can be written.
        _open_output(stack, output_path, [input_path], append=True)
        try:
            text = decode_document(stream.read())
        except OSError as error:
            raise InputError(
                f"Cannot read the input: {error_reason(error)}."
            ) from error
        on_progress = _show_progress(stack, description, output_path)
        text = translate(text, on_progress)
        _open_output(stack, output_path, [input_path], append=False).write_text(
            text
        )


def _remove_after_error(path):
    """Returns an exit function of a context that removes a file."""

    def remove(error_type, error, traceback):
        if error_type is not None:
            pathlib.Path(path).unlink(missing_ok=True)

    return remove


def _show_progress(stack, description, output_path):
    """Returns the function that moves a progress bar, or None."""
    # A bar between the output lines would make both unreadable.
    if output_path in _STANDARD and sys.stdout.isatty():
        return None
    bar = ProgressBar(description, None, "sentences")
    return stack.enter_context(bar).update


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


def _open_output(stack, path, input_paths, append):
    if path in _STANDARD:
        if sys.stdout is None:
            raise InputError("Standard output is closed; give --output=FILE.")
        return LineWriter(sys.stdout.fileno(), "Standard output")
    path = pathlib.Path(path)
    for input_path in input_paths:
        if _is_same_file(path, input_path):
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


def _is_same_file(path, input_path):
    # Standard input may be closed, or not a file of the system.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if input_path in _STANDARD:
            status = os.fstat(sys.stdin.fileno())
        else:
            status = pathlib.Path(input_path).stat()
        is_file = stat.S_ISREG(status.st_mode)
        return is_file and os.path.samestat(status, path.stat())
    return False


def count_processed_lines(
    input_path: str,
    output_path: str,
    has_output: Callable[[str], bool],
    matches: Callable[[str, str], bool],
) -> int:
    """Returns the number of input lines that already have output.

    Removes the incomplete last line that a stopped command left in the output,
    which need not exist. Raises InputError if a file cannot be read or
    written, or the output belongs to another input.

    `has_output(line)` tells whether an input line gives an output line, and
    `matches(line, output_line)` whether an output line belongs to it.
    """
    path = pathlib.Path(output_path)
    if not path.exists():
        return 0
    lines = (
        (number, line)
        for number, line in enumerate(read_lines(input_path), 1)
        if has_output(line)
    )
    number: int | None = 0
    line, last, size = "", b"", 0
    try:
        with path.open("rb") as stream:
            for output_line in stream:
                if output_line.endswith(b"\n"):
                    number, line = next(lines, (None, ""))
                    last, size = output_line, size + len(output_line)
        text = last.decode("utf-8", "replace").removesuffix("\n")
        if number is None or (last and not matches(line, text)):
            raise InputError(
                f"--output={output_path} does not hold the results of the "
                f"first lines of --input={input_path}; give the same flags as "
                "before, or name another --output."
            )
        os.truncate(path, size)
    except OSError as error:
        raise InputError(
            f"--output={output_path} cannot be resumed: {error.strerror}."
        ) from error
    return number
