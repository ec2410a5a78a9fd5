"""Uses a trained model: translates, exports, serves and converts it.

Modules at the top level are commands and `model_directory`.
"""

import os
import re
import sys

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"
_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")


def _is_command():
    """Returns whether `python -m` is starting a command of this project."""
    arguments = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in arguments[:-1]:
        return False
    module = arguments[arguments.index("-m") + 1]
    return bool(_COMMAND.fullmatch(module))


if _is_command():
    if sys.getfilesystemencoding() != "utf-8":
        # Python's file names would differ from TensorFlow's, which are UTF-8.
        os.execv(
            sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        )
    # Keras fails to import with a backend that is not installed. `command.run`
    # reports REQUESTED_BACKEND instead.
    os.environ["KERAS_BACKEND"] = "tensorflow"
