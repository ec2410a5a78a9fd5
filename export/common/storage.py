"""Files and folders: local or at URLs, written atomically.

A name with "://" is a URL that fsspec opens, such as `s3://bucket/train.en`, in
cloud storage or on another machine over SFTP. A UPath has the methods of
pathlib.Path, so most code treats both alike.
"""

import contextlib
import errno
import json
import os
import pathlib
import platform
import shutil
import stat
import tempfile
import typing
import zlib
from collections.abc import Iterator

from export.common.errors import InputError

if typing.TYPE_CHECKING:
    import typing_extensions
    import upath

AnyPath: typing.TypeAlias = "pathlib.Path | upath.UPath"


@contextlib.contextmanager
def atomic_write(path: "str | AnyPath") -> Iterator[pathlib.Path]:
    """Yields a temporary path that replaces `path` at the end of the block.

    The temporary path does not exist yet; it is in the same folder and has the
    same suffix. If the block raises, it is removed and `path` is unchanged. If
    several processes write the same path, the last one wins. Parent folders
    are created, and the target of a symbolic link is written. `path` is a file
    or folder; a URL (UPath) must be a file. Raises InputError if the system
    refuses to write, or `path` is a device or another special file.
    """
    target = resolve_path(path)
    write = _write_local if is_local(target) else _write_remote
    try:
        with write(target) as temporary:
            yield temporary
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error_reason(error)}. It is unchanged; "
            "free some space or choose another path, then run the same command "
            "again."
        ) from error


def write_bytes(path: "str | AnyPath", content: bytes | memoryview) -> None:
    """Writes a file atomically; raises as `atomic_write`."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: "str | AnyPath", content: typing.Any) -> None:
    """Writes dicts, lists, strings and numbers as indented JSON, atomically.

    `path` may be a UPath. Raises InputError if the system refuses to write.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    # Surrogates, of paths that are not UTF-8, become JSON escapes.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def _write_local(path):
    target = pathlib.Path(os.path.realpath(path))
    mode = _file_mode(target)
    temporary = _temporary_path(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)
        yield temporary
        if mode is not None:
            temporary.chmod(mode)
        _flush(temporary)
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            _remove(temporary)


@contextlib.contextmanager
def _write_remote(path):
    """Writes a local file, uploads it, then renames it remotely."""
    with tempfile.TemporaryDirectory() as folder:
        local = pathlib.Path(folder, path.name)
        yield local
        temporary = _temporary_path(path)
        with convert_remote_errors(path):
            path.fs.makedirs(path.parent.path, exist_ok=True)
            path.fs.put_file(str(local), temporary.path)
            path.fs.mv(temporary.path, path.path)


def _temporary_path(path):
    # Unique among the containers on one disk.
    node = zlib.crc32(platform.node().encode())
    return path.with_name(f".{os.getpid()}-{node:08x}.{path.name}")


def remove_temporary_files(folder: AnyPath, pattern: str) -> None:
    """Removes temporary files of `atomic_write` from killed processes.

    `pattern` is a glob of their final names. Raises InputError if the system
    refuses to remove one.
    """
    with explain_file_errors(folder):
        for path in folder.glob(f".[0-9]*.{pattern}"):
            _remove(path)


def _file_mode(path):
    """Returns a file's permissions; None for a folder or a missing file.

    Raises InputError for anything else, such as a device.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode) and path != path.parent:
        return None
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} cannot be replaced; give the name of a file.")
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


def resolve_path(name: "str | AnyPath") -> AnyPath:
    """Returns the pathlib.Path of a name, or the UPath of a URL.

    Paths are returned unchanged. Raises InputError if fsspec cannot open such
    URLs with the installed packages.
    """
    if not isinstance(name, str):
        return name
    if "://" not in name:
        return pathlib.Path(name)
    # Not at the top: it imports fsspec, which few need.
    import upath

    try:
        path = upath.UPath(name)
        # Imports the package for the URL.
        _ = path.fs
    except Exception as error:
        raise InputError(
            f"Cannot use {name}: {_one_line(error)}. It must be a path, or a "
            "URL that fsspec opens with the packages that are installed, such "
            "as s3://bucket/folder with s3fs."
        ) from error
    return path


def is_local(path: AnyPath) -> "typing_extensions.TypeIs[pathlib.Path]":
    """Returns whether a path is on this machine, not a URL."""
    return isinstance(path, pathlib.Path)


@contextlib.contextmanager
def convert_remote_errors(path: "str | AnyPath") -> Iterator[None]:
    """Converts any error of a URL to OSError, in a `with` block."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        if is_local(path):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def explain_file_errors(
    path: "str | AnyPath",
) -> contextlib.AbstractContextManager[None]:
    """Converts OSErrors of a file or folder to InputError."""
    return _explain_errors(
        path,
        "Cannot use {}: {}. Fix that, then run the same command again.",
    )


def explain_read_errors(
    path: "str | AnyPath",
) -> contextlib.AbstractContextManager[None]:
    """Converts OSErrors of reading a file to InputError."""
    return _explain_errors(path, "Cannot read {}: {}.")


@contextlib.contextmanager
def _explain_errors(path, sentence):
    try:
        with convert_remote_errors(path):
            yield
    except OSError as error:
        raise InputError(sentence.format(path, error_reason(error))) from error


def list_names(folder: AnyPath) -> list[str]:
    """Lists the names of the files and folders in a folder.

    Raises OSError if it cannot be listed; FileNotFoundError if it is missing.
    """
    with convert_remote_errors(folder):
        if is_local(folder):
            return [path.name for path in folder.iterdir()]
        # UPath.iterdir sends three requests, and reports any failure as a
        # missing folder.
        paths = folder.fs.ls(folder.path, detail=False)
        return [path.rstrip("/").rpartition("/")[2] for path in paths]


def error_reason(error: OSError) -> str:
    """Returns the reason of an OSError in words."""
    if error.errno:
        return os.strerror(error.errno)
    # The text of fsspec's error is the path only.
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    return _one_line(error) or type(error).__name__


def _one_line(error):
    return " ".join(str(error).split())
