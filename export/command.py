"""What every command does the same way: start, fail, be interrupted."""

import sys

from absl import app, logging

from export.errors import InputError

EXIT_INPUT_ERROR = 2
EXIT_INTERRUPTED = 130


def run(main):
    """Runs a command's main function under absl, with its exit codes.

    An InputError is printed as one line and exits with 2; Ctrl-C exits with
    130. Anything else is a fault of ours and shows its traceback.

    Args:
        main: function of the arguments left after the flags.
    """

    def guarded(arguments):
        # TensorFlow's notes while saving are not what a user asked for.
        logging.set_verbosity(logging.WARNING)
        try:
            if len(arguments) > 1:
                raise InputError(
                    f"Unknown argument {arguments[1]!r}; flags begin with --."
                )
            return main(arguments)
        except InputError as error:
            print(f"Error: {error}", file=sys.stderr)
            return EXIT_INPUT_ERROR
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            return EXIT_INTERRUPTED

    app.run(guarded)
