"""Sets up UTF-8 and Keras' TensorFlow backend before a command's imports.

A backend that is not installed would end a command before its first line;
`command.run` refuses other backends by name instead.
"""

import os
import re
import sys

_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"


def select_tensorflow():
    """Makes a command of this project import Keras with TensorFlow."""
    if _is_command():
        os.environ["KERAS_BACKEND"] = "tensorflow"


def ensure_utf8():
    """Restarts a command of this project in UTF-8 under another locale.

    Otherwise Python's file names would differ from TensorFlow's, which are
    UTF-8.
    """
    if _is_command() and sys.getfilesystemencoding() != "utf-8":
        order = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, order)


def _is_command():
    """Returns whether this is `python -m` of this project, at its start."""
    given = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in given[:-1]:
        return False
    return bool(_COMMAND.fullmatch(given[given.index("-m") + 1]))
