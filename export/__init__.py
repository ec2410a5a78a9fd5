"""Uses a trained model: translates, exports, serves and converts it.

Modules at the top level are commands and `model_directory`; their parts are in
subpackages. Nothing here imports trainers.
"""

import os
import re
import sys

# Before any module below imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"
_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")


def _is_command():
    """Returns whether this is `python -m` of this project, at its start."""
    given = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in given[:-1]:
        return False
    return bool(_COMMAND.fullmatch(given[given.index("-m") + 1]))


if _is_command():
    if sys.getfilesystemencoding() != "utf-8":
        # Python's file names would differ from TensorFlow's, which are UTF-8.
        os.execv(
            sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        )
    # One that is not installed would end a command before its first line;
    # `command.run` refuses others by name instead.
    os.environ["KERAS_BACKEND"] = "tensorflow"
