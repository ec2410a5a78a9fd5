"""What a command does before its imports: UTF-8, and Keras with TensorFlow.

Another backend that is not installed would end a command before its first
line; `command.run` refuses it by name.
"""

import os
import re
import sys

_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"


def select_tensorflow():
    """Makes a command of ours import Keras with TensorFlow."""
    if _is_command():
        os.environ["KERAS_BACKEND"] = "tensorflow"


def ensure_utf8():
    """Restarts a command of ours in UTF-8 where the locale is another.

    Python's functions and TensorFlow's, which take UTF-8, would see different
    names of files.
    """
    if _is_command() and sys.getfilesystemencoding() != "utf-8":
        order = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, order)


def _is_command():
    """Whether this is `python -m` with a module of ours, at its start."""
    given = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in given[:-1]:
        return False
    return bool(_COMMAND.fullmatch(given[given.index("-m") + 1]))
