"""How processes get along: processors, signals, sub-commands, locks."""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys

from export.errors import InputError


def processor_count():
    """Returns how many processors this process may run on.

    A scheduler may have given it fewer than the machine has.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class StopSignals:
    """A context in which SIGINT and SIGTERM ask instead of kill.

    A second signal acts as usual.

    Args:
        stop: function without arguments, called at the first signal.

    Attributes:
        received: number of the signal, 0 while there was none.
    """

    def __init__(self, stop):
        self.received = 0
        self._stop = stop
        self._previous = {}

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        self._restore()

    def _restore(self):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number, frame):
        del frame
        self.received = number
        self._restore()
        self._stop()


def run_subcommand(module, arguments):
    """Runs a command as a process of its own, to its end.

    The first Ctrl-C or SIGTERM is passed on, so that a training saves; a
    second one ends both at once.

    Args:
        module: such as "trainers.wmt".
        arguments: its flags, list of str.

    Returns:
        Its exit code, as a shell tells it.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        # A terminal would send it a Ctrl-C beside the one passed on, and two
        # mean: do not save.
        start_new_session=True,
        stderr=sys.stderr,
    )
    before = signal.getsignal(signal.SIGTERM)

    def pass_on():
        process.send_signal(signals.received)
        # By default a second one would end this process alone.
        signal.signal(signal.SIGTERM, _leave)

    signals = StopSignals(pass_on)
    try:
        with signals:
            code = process.wait()
    finally:
        process.kill()
        process.wait()
        signal.signal(signal.SIGTERM, before)
    return code if code >= 0 else 128 - code


def _leave(number, frame):
    del frame
    sys.exit(128 + number)


_HELD = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def folder_lock(folder, work):
    """Keeps others with the same work out of a folder.

    Two in one would take each other's files for their own: a job that was
    queued again while it still ran, say. The lock is the system's and ends
    with the process, however that ends; it holds on all machines that share a
    file system with POSIX locks.

    Args:
        folder: pathlib.Path; made where it is not there.
        work: what it is kept for, a word: "training" holds `training.lock`.

    Raises:
        InputError: another process is at it there, or the system refused to
            write.
    """
    path = folder / f"{work}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(path)
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error.strerror}; make room or choose "
            "another folder, then run the same command again."
        ) from error
    try:
        yield
    finally:
        # While it is still locked: who opened it meanwhile finds it gone.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path):
    """Returns the descriptor of a lock file that is this process's alone."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor, path)
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # The one who held it removed it just now.
        os.close(descriptor)


def _lock(descriptor, path):
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise InputError(
                f"Another {path.stem} is under way in {path.parent} and holds "
                f"its {path.name}; wait for its end, stop it, or use another "
                "folder."
            ) from None
        if error.errno not in _NO_LOCKS:
            raise
        print(
            f"Warning: {path.parent} lies on a file system without locks "
            f"({error.strerror}); see to it that no second {path.stem} uses "
            "it.",
            file=sys.stderr,
            flush=True,
        )


def _is_at(path, descriptor):
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))
