"""What every command does the same way: start, fail, be interrupted."""

import math
import sys

from absl import app, flags, logging

from export.errors import InputError

EXIT_INPUT_ERROR = 2
EXIT_INTERRUPTED = 130


def run(main, operands=(), any_backend=False):
    """Runs a command's main function under absl, with its exit codes.

    An InputError is printed as one line and exits with 2; Ctrl-C exits with
    130. Anything else is a fault of ours and shows its traceback.

    Args:
        main: function of the arguments left after the flags; the program's
            name is the first.
        operands: names of what must be given beside flags, in order.
        any_backend: whether Keras may run on another backend than TensorFlow.
    """

    def guarded(arguments):
        # TensorFlow's notes while saving are not what a user asked for.
        logging.set_verbosity(logging.WARNING)
        try:
            _check_count(arguments[1:], operands)
            if not any_backend:
                _require_tensorflow()
            return main(arguments)
        except InputError as error:
            print(f"Error: {error}", file=sys.stderr)
            return EXIT_INPUT_ERROR
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            return EXIT_INTERRUPTED

    app.run(guarded)


def require_finite(*names):
    """Refuses "nan" and "inf", which bounds of flags let through.

    Args:
        *names: of flags of numbers.
    """
    for name in names:
        flags.register_validator(
            name,
            lambda value: value is None or math.isfinite(value),
            "It must be a finite number.",
        )


def _require_tensorflow():
    # Where a command needs TensorFlow, it has loaded Keras.
    keras = sys.modules.get("keras")
    backend = keras.config.backend() if keras else "tensorflow"
    if backend != "tensorflow":
        raise InputError(
            f"This command needs Keras' TensorFlow backend, not {backend!r}; "
            "start it with KERAS_BACKEND=tensorflow."
        )


def _check_count(given, operands):
    if len(given) > len(operands):
        raise InputError(
            f"Unknown argument {given[len(operands)]!r}; flags begin with --."
        )
    if len(given) < len(operands):
        raise InputError(
            f"{operands[len(given)]} is missing; --help says what it is."
        )
