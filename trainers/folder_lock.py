"""One process at a time that writes in a folder."""

import contextlib
import errno
import fcntl
import os
import sys

from export.command import InputError

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
