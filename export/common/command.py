"""Starts commands; handles their errors, interrupts and operands."""

import gc
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence

from absl import app, flags, logging

from export import JAX_COMMANDS, REQUESTED_BACKEND
from export.common.errors import InputError
from export.common.packages import (
    EXIT_INPUT_ERROR,
    explain_import_error,
    install_command,
)

EXIT_INTERRUPTED = 130
# As in a shell: 128 + SIGPIPE.
EXIT_BROKEN_PIPE = 141
# The value of a flag for `parse_named_numbers` without any.
OFF = "off"


def run(
    main: Callable[[list[str]], int | None],
    operands: Sequence[str] | None = (),
    any_backend: bool = False,
    may_be_empty: Collection[str] = (),
) -> None:
    """Runs a command's main function under absl, with its exit codes.

    An InputError is printed as one line and exits with 2; Ctrl-C exits with
    130, and output to a closed pipe with 141. Any other exception is a bug and
    shows its traceback.

    Args:
        main: function of a list: the program's name and the operands.
        operands: names of the required operands, in order; None for any number.
        any_backend: whether KERAS_BACKEND may name any backend, and not only
            TensorFlow or, for some commands, JAX.
        may_be_empty: names of the flags that take empty text.
    """

    def run_main(arguments):
        # Hides TensorFlow's messages on saving.
        logging.set_verbosity(logging.WARNING)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        try:
            _validate_encoding(sys.argv)
            _validate_not_empty(may_be_empty)
            if operands is not None:
                _validate_operands(arguments[1:], operands)
            if not any_backend:
                _validate_backend()
            return main(arguments)
        except (InputError, ImportError) as error:
            message = str(error)
            if isinstance(error, ImportError):
                message = explain_import_error(error)
            if message is None:
                raise
            print(f"Error: {message}", file=sys.stderr)
            return EXIT_INPUT_ERROR
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            return EXIT_INTERRUPTED

    # TensorFlow's graphs are many objects that stay: looking for garbage among
    # them took a tenth of an export.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    try:
        try:
            app.run(run_main)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)


def command_line(program: str, *arguments: object) -> str:
    """Returns a shell line for a module (`python -m`) or another program."""
    words = ["python", "-m", program] if "." in program else [program]
    return shlex.join([*words, *map(str, arguments)])


def print_next(*lines: str) -> None:
    """Prints commands that can be run next, from `command_line`."""
    print("", "Next:", *(f"  {line}" for line in lines), sep="\n", flush=True)


def serialize_flags(*names: str) -> list[str]:
    """Returns the flags of these names that were given, as arguments."""
    all_flags = [flags.FLAGS[name] for name in names]
    return [flag.serialize() for flag in all_flags if flag.present]


def new_path(flag: str) -> pathlib.Path:
    """Returns the path of a flag; InputError if it exists already."""
    path = pathlib.Path(flags.FLAGS[flag].value)
    validate_new_path(path, f"--{flag}")
    return path


def validate_new_path(path: pathlib.Path, flag: str) -> None:
    """Raises InputError if the path in a flag exists already."""
    if path.exists():
        raise InputError(
            f"{path} exists and is never overwritten; name another {flag}, or "
            "remove it first."
        )


def parse_named_numbers(
    flag: str,
    text: str,
    defaults: Mapping[str, float],
    most: float,
    expected: str,
) -> dict[str, float]:
    """Returns the numbers of a flag such as "lower=0.1,typos=0.2".

    OFF has none. `defaults` has the number of each name that stands alone, NaN
    if it needs one. Raises InputError, with what was `expected`, for other
    names and for numbers outside 0 to `most`.
    """
    numbers = {}
    for item in [] if text == OFF else text.split(","):
        name, equals, value = item.partition("=")
        try:
            numbers[name] = float(value) if equals else defaults[name]
        except (ValueError, KeyError):
            numbers[name] = math.nan
        if name not in defaults or not 0 <= numbers[name] <= most:
            raise InputError(
                f"--{flag}={text} has {item!r}; expected {expected}, or {OFF}."
            )
    return numbers


def mark_flags_as_finite(*names: str) -> None:
    """Makes float flags reject "nan" and "inf", which pass their bounds."""
    for name in names:
        flags.register_validator(
            name,
            lambda value: value is None or math.isfinite(value),
            "It must be a finite number.",
        )


def _validate_encoding(arguments):
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            # TensorFlow and JSON accept names in UTF-8 only.
            raise InputError(
                f"The argument {argument!a} is not UTF-8; write it in UTF-8, "
                "or rename the file."
            ) from None


def _validate_not_empty(may_be_empty):
    """Raises InputError for an empty value, as from an unset shell variable."""
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        values = flag.value if isinstance(flag.value, list) else [flag.value]
        if flag.present and "" in values and name not in may_be_empty:
            raise InputError(
                f"--{name} has an empty value; give it one, or omit it."
            )


def _validate_backend():
    backends = ["tensorflow"]
    spec = sys.modules["__main__"].__spec__
    name = spec.name.removesuffix(".__main__") if spec is not None else ""
    if name in JAX_COMMANDS:
        backends.append("jax")
    if REQUESTED_BACKEND not in backends:
        raise InputError(
            f"This command needs Keras' backend {' or '.join(backends)}, not "
            f"{REQUESTED_BACKEND!r}; start it with KERAS_BACKEND=tensorflow."
        )
    if os.environ.get("KERAS_BACKEND", "tensorflow") != REQUESTED_BACKEND:
        raise InputError(
            f"The package {REQUESTED_BACKEND} is not installed; run "
            f"{install_command(REQUESTED_BACKEND)}."
        )


def _validate_operands(arguments, names):
    if len(arguments) > len(names):
        surplus = arguments[len(names)]
        raise InputError(f"Unknown argument {surplus!r}; flags begin with --.")
    if len(arguments) < len(names):
        raise InputError(f"{names[len(arguments)]} is missing; see --help.")
