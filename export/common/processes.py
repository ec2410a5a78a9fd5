"""CPU count, signals, subprocesses and folder locks."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator, Sequence

import filelock

from export.common.errors import InputError

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def processor_count() -> int:
    """Returns the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_processors(num_tasks: int) -> None:
    """Gives each of TensorFlow's operations its share of the processors.

    To be called before TensorFlow computes, by a process in which `num_tasks`
    do so at a time. Waking threads for the few rows of single sentences takes
    longer than the product (docs/measured/serving.md). A choice of the user in
    TF_NUM_INTRAOP_THREADS is kept.
    """
    share = max(processor_count() // num_tasks, 1)
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(share))


class StopSignals:
    """A context in which the first SIGINT or SIGTERM calls `stop()`.

    A second signal gets the handler from before the context. The attribute
    `received` is the number of the first signal, 0 before it.
    """

    def __init__(self, stop: Callable[[], object]):
        self.received = 0
        self._stop = stop
        self._previous_handlers: dict[int, typing.Any] = {}

    def __enter__(self):
        for number in _STOP_SIGNALS:
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


def run_subcommand(module: str, arguments: Sequence[str]) -> int:
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
    signals = StopSignals(lambda: process.send_signal(signals.received))
    # The default handler would end this process without the `finally`.
    previous_handler = signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )
    try:
        with signals:
            code = process.wait()
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGTERM, previous_handler)
    # A negative code is minus the number of the signal that ended the process.
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def folder_lock(folder: pathlib.Path, activity: str) -> Iterator[None]:
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
    except FileExistsError:
        raise InputError(
            f"{folder} is not a folder, or a link to none; choose another."
        ) from None
    except OSError as error:
        raise InputError(
            f"Cannot lock {path}: {error.strerror}; mend this or choose "
            "another folder, then run the same command again."
        ) from error
    try:
        yield
    finally:
        # Removed while it is locked: after the release it might be the lock of
        # another process. filelock never holds a file that was removed.
        path.unlink(missing_ok=True)
        lock.release()
