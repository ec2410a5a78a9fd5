"""CPU count, signals, subprocesses and folder locks."""

import contextlib
import os
import signal
import subprocess
import sys

import filelock

from export.common.errors import InputError


def processor_count():
    """Returns the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class StopSignals:
    """A context in which the first SIGINT or SIGTERM calls `stop()`.

    A second signal has its previous effect. The attribute `received` is the
    number of the signal, 0 before one.
    """

    def __init__(self, stop):
        self.received = 0
        self._stop = stop
        self._previous_handlers = {}

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.signal(number, self._handle)
            self._previous_handlers[number] = previous
        return self

    def __exit__(self, *error):
        self._restore_handlers()

    def _restore_handlers(self):
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        self._previous_handlers = {}

    def _handle(self, number, frame):
        del frame
        self.received = number
        self._restore_handlers()
        self._stop()


def run_subcommand(module, arguments):
    """Runs a module in a subprocess; returns its exit code as a shell does.

    The first Ctrl-C or SIGTERM is forwarded, so that a training saves a
    checkpoint; a second one ends both processes at once.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        # A terminal would send it a second Ctrl-C, which means: do not save.
        start_new_session=True,
        stderr=sys.stderr,
    )
    previous_handler = signal.getsignal(signal.SIGTERM)

    def exit_now(number, frame):
        del frame
        sys.exit(128 + number)

    def forward_signal():
        process.send_signal(signals.received)
        # By default a second signal would end this process only.
        signal.signal(signal.SIGTERM, exit_now)

    signals = StopSignals(forward_signal)
    try:
        with signals:
            code = process.wait()
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGTERM, previous_handler)
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def folder_lock(folder, activity):
    """Locks a folder for one activity, without waiting.

    The operating system releases the lock when the process ends. It also
    holds on other machines, if their shared file system has locks. `activity`
    is a word such as "training", which locks `training.lock`; a missing folder
    is created. Raises InputError if another process holds the lock or the
    system refuses it.
    """
    path = folder / f"{activity}.lock"
    lock = filelock.FileLock(path, blocking=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise InputError(
            f"Another {activity} is under way in {folder} and holds its "
            f"{path.name}; wait for it to end, stop it, or use another folder."
        ) from None
    except OSError as error:
        raise InputError(
            f"Cannot lock {path}: {error.strerror}; free some space or choose "
            "another folder, then run the same command again."
        ) from error
    try:
        yield
    finally:
        # Before the release: filelock cannot lock a file that was removed.
        path.unlink(missing_ok=True)
        lock.release()
