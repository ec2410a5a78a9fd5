"""Runs a command again and again, as `python -m trainers.wmt` would.

python -m tests.trainers.command_worker MODULE

A process of its own: absl's flags and signal handlers, TensorFlow's threads
and its logging stay out of pytest, and TensorFlow loads once. Reads a JSON
line {"arguments", "folder"} from standard input for each command, and answers
with {"code", "out", "err"}.
"""

import contextlib
import gc
import importlib
import json
import logging
import os
import sys
import tempfile
import traceback

from absl.testing import flagsaver

from export.common import command


def run(module, arguments, folder):
    """Runs a module's command and returns its exit code and what it wrote."""
    os.chdir(folder)
    sys.argv = [module.__name__, *arguments]
    with (
        _redirected(1) as out,
        _redirected(2) as err,
    ):
        code = _exit_code(module)
        sys.stdout.flush()
        sys.stderr.flush()
        return {"code": code, "out": _content(out), "err": _content(err)}


@contextlib.contextmanager
def _redirected(descriptor):
    """A file that takes even what C++ writes to a descriptor."""
    kept = os.dup(descriptor)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield file
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)


def _exit_code(module):
    try:
        with flagsaver.flagsaver():
            command.run(module.main)
    except SystemExit as stopped:
        return stopped.code or 0
    except BaseException:
        # As the interpreter does with what nobody catches.
        traceback.print_exc()
        return 1


def _content(file):
    file.seek(0)
    return file.read().decode("utf-8")


if __name__ == "__main__":
    # Freeing the iterator of a training may wait seconds for its thread.
    gc.disable()
    # TensorFlow warns of functions that it traces again: each training has one.
    logging.getLogger("tensorflow").addFilter(
        lambda record: "retracing" not in record.getMessage()
    )
    chosen = importlib.import_module(sys.argv[1])
    for line in sys.stdin:
        answer = run(chosen, **json.loads(line))
        print(json.dumps(answer), flush=True)
