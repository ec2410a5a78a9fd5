"""Runs commands one after the other, as `python -m trainers.wmt` would.

A process of its own: absl's flags and signal handlers, TensorFlow's threads
and its logging stay out of pytest, and TensorFlow loads once. Reads a JSON
line {"arguments", "folder"} from standard input for each command, and answers
with {"code", "out", "err"}.
"""

import json
import os
import sys
import tempfile
import traceback

from absl.testing import flagsaver

from export import command
from trainers import wmt


def run(arguments, folder):
    """Runs one command and returns its exit code and what it wrote."""
    os.chdir(folder)
    sys.argv = ["trainers.wmt", *arguments]
    kept = [os.dup(1), os.dup(2)]
    files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
    # The descriptors themselves, for what C++ writes.
    for number, file in zip((1, 2), files):
        os.dup2(file.fileno(), number)
    try:
        code = _exit_code()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
    out, err = map(_content, files)
    return {"code": code, "out": out, "err": err}


def _exit_code():
    try:
        with flagsaver.flagsaver():
            command.run(wmt.main)
    except SystemExit as stopped:
        return stopped.code or 0
    except BaseException:
        # As the interpreter does with what nobody catches.
        traceback.print_exc()
        return 1


def _content(file):
    file.seek(0)
    with file:
        return file.read().decode("utf-8")


if __name__ == "__main__":
    for line in sys.stdin:
        answer = run(**json.loads(line))
        print(json.dumps(answer), flush=True)
