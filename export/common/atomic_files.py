"""Files and folders that are whole or not there."""

import contextlib
import json
import os
import pathlib
import platform
import shutil
import stat
import tempfile
import zlib

from export.common.errors import InputError
from export.common.paths import (
    convert_remote_errors,
    error_reason,
    explain_file_errors,
    is_local,
    resolve_path,
)


@contextlib.contextmanager
def atomic_write(path):
    """Gives a temporary path that takes the place of `path` at the end.

    The temporary one lies in the same folder and ends like `path`. When the
    block raises, it is removed and `path` stays as it was. Where several
    processes write the same path, the last one's stays, whole.

    Args:
        path: the file or folder to write; folders above it are made. Of a
            link, what it leads to is written. Of a URL (UPath), a file.

    Yields:
        pathlib.Path to write to; nothing is there yet.

    Raises:
        InputError: the system refused to write (a full disk, say), or the
            path names a device or the like.
    """
    place = resolve_path(path)
    written = _renamed if is_local(place) else _sent
    try:
        with written(place) as temporary:
            yield temporary
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error_reason(error)}; what was there "
            "before is untouched. Make room or choose another place, then "
            "run the same command again."
        ) from error


def write_json(path, content):
    """Writes JSON atomically, indented and readable.

    Args:
        path: of the file, or its URL (UPath).
        content: of dicts, lists, strings and numbers.

    Raises:
        InputError: the system refused to write.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    with atomic_write(path) as temporary:
        # Half a character of a path that is not UTF-8 becomes JSON's escape.
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def _renamed(path):
    place = pathlib.Path(os.path.realpath(path))
    mode = _mode_of_file(place)
    temporary = _beside(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        _flush(temporary)
        temporary.replace(place)
    finally:
        with contextlib.suppress(OSError):
            _remove(temporary)


@contextlib.contextmanager
def _sent(place):
    """Made on this machine, sent whole, then renamed there."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = pathlib.Path(folder, place.name)
        yield temporary
        there = _beside(place)
        with convert_remote_errors(place):
            place.fs.makedirs(place.parent.path, exist_ok=True)
            place.fs.put_file(str(temporary), there.path)
            place.fs.mv(there.path, place.path)


def _beside(place):
    return place.with_name(f".{_process()}.{place.name}")


def remove_temporary_files(folder, pattern):
    """Removes what killed processes left of files that were being written.

    Args:
        folder: path where `atomic_write` was to write them.
        pattern: glob of their final names.

    Raises:
        InputError: the system refused to.
    """
    with explain_file_errors(folder):
        for path in folder.glob(f".[0-9]*.{pattern}"):
            _remove(path)


def _process():
    """Names this process among those of all containers on one disk.

    Their processes have the same numbers, and the same again when one starts
    anew: then what the one before it left is removed.
    """
    return f"{os.getpid()}-{zlib.crc32(platform.node().encode()):08x}"


def _mode_of_file(path):
    """Returns the permissions of a file to keep; None where there is none."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode) and path != path.parent:
        return None
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{path} is no place for a file; give the name of one."
        )
    return stat.S_IMODE(mode)


def _flush(path):
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
