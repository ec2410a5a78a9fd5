"""Uses a trained model: translates, exports, serves and converts it.

`load_translator` opens a translator in Python. Modules at the top level are
commands, `loading`, `model_directory` and `remote_models`.
"""

import importlib.util
import os
import re
import sys

from export.common.packages import require_packages
from export.common.quiet_import import quiet_tensorflow

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"
# Commands that also run on JAX.
JAX_COMMANDS = (
    "export.onnx",
    "export.parse",
    "export.translate",
    "trainers.parsing",
    "trainers.wmt",
)
_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")


def __getattr__(name):
    # Not an import, so that commands start sooner.
    if name == "load_translator":
        from export.loading import load_translator

        return load_translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _command_name():
    """Returns the command of this project that `python -m` starts, or None."""
    arguments = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in arguments[:-1]:
        return None
    module = arguments[arguments.index("-m") + 1]
    return module if _COMMAND.fullmatch(module) else None


def _runs_on_jax(command):
    return (
        REQUESTED_BACKEND == "jax"
        and command in JAX_COMMANDS
        and importlib.util.find_spec("jax") is not None
    )


_NAME = _command_name()
quiet_tensorflow(
    hides_import=_NAME is not None
    or sys.orig_argv[-1] == "--multiprocessing-fork"
)
if _NAME:
    if sys.getfilesystemencoding() != "utf-8":
        # Python's file names would differ from TensorFlow's, which are UTF-8.
        os.execv(
            sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        )
    require_packages()
    # Keras fails to import with a backend that is not installed. `command.run`
    # reports REQUESTED_BACKEND instead.
    if not _runs_on_jax(_NAME):
        os.environ["KERAS_BACKEND"] = "tensorflow"
