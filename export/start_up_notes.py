"""What a command does before its imports: UTF-8, and a quiet TensorFlow.

Keras is imported with TensorFlow, since another backend that is not installed
would end a command before its first line; `command.run` refuses it by name.

On a machine without a GPU TensorFlow writes some eight lines before a command's
own first word, and no setting of its own turns them off.
"""

import os
import re
import signal
import sys

# Information, the heading of early messages, that there is no GPU, and that
# some of its operations are the usual ones.
_NOTE = re.compile(
    rb"I\d{4} \d\d:|WARNING: All log messages before absl::InitializeLog"
    rb"|E\d{4} .*(failed call to cuInit|oneDNN supports DT_\w+ only)"
)
_COMMAND = re.compile(r"(export|trainers)(\.\w+)+")

REQUESTED_BACKEND = os.environ.get("KERAS_BACKEND") or "tensorflow"


def select_tensorflow():
    """Has a command of ours import Keras with TensorFlow."""
    if _is_command():
        os.environ["KERAS_BACKEND"] = "tensorflow"


def ensure_utf8():
    """Starts a command of ours again in UTF-8 where the locale is another.

    Names of files would reach Python's functions and TensorFlow's, which
    take UTF-8, as different ones.
    """
    if _is_command() and sys.getfilesystemencoding() != "utf-8":
        order = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, order)


def hide_start_up_notes():
    """Filters what TensorFlow itself writes, where a command of ours starts.

    The process' second descriptor leads to a child that leaves out the notes
    and passes on all other lines, also those of a crash. Python's own
    `sys.stderr` leads to where it led before.
    """
    if not (_is_command() and hasattr(os, "fork")):
        return
    try:
        kept = os.dup(2)
    except OSError:
        # Closed: nobody reads it.
        return
    source, sink = os.pipe()
    if os.fork() == 0:
        os.close(sink)
        _pass_on(source, kept)
    os.close(source)
    os.dup2(sink, 2)
    os.close(sink)
    sys.stderr = open(  # noqa: SIM115, PTH123
        kept, "w", buffering=1, encoding="utf-8", errors="backslashreplace"
    )


def _is_command():
    """Whether this is `python -m` with a module of ours, at its start."""
    given = sys.orig_argv[1:]
    if sys.argv[:1] != ["-m"] or "-m" not in given[:-1]:
        return False
    return bool(_COMMAND.fullmatch(given[given.index("-m") + 1]))


def _pass_on(source, target):
    """Copies lines but for the notes until there are no more; never returns."""
    # What stops the command ends its output, and so this.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        with open(source, "rb") as lines:  # noqa: PTH123
            for line in lines:
                if not _NOTE.match(line):
                    os.write(target, line)
    finally:
        os._exit(0)
