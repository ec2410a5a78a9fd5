"""Local paths, and URLs of files that fsspec opens.

A name with "://" is a URL, such as `s3://bucket/train.en`: of cloud storage,
or of another machine over SFTP. UPath gives it pathlib.Path's methods, so most
code treats both alike.
"""

import contextlib
import errno
import os
import pathlib

from export.common.errors import InputError


def resolve_path(name):
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


def is_local(path):
    """Returns whether a path is on this machine, not a URL."""
    return isinstance(path, pathlib.Path)


@contextlib.contextmanager
def convert_remote_errors(path):
    """Converts any error of a URL in a `with` block to OSError."""
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        if is_local(path):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def explain_file_errors(path):
    """Converts errors of a file or folder in a `with` block to InputError."""
    return _explain_errors(
        path,
        "Cannot use {}: {}. See to that, then run the same command again.",
    )


def explain_read_errors(path):
    """Converts errors of reading a file in a `with` block to InputError."""
    return _explain_errors(path, "Cannot read {}: {}.")


@contextlib.contextmanager
def _explain_errors(path, sentence):
    try:
        with convert_remote_errors(path):
            yield
    except OSError as error:
        raise InputError(sentence.format(path, error_reason(error))) from error


def list_names(folder):
    """Returns a list of the names of the files and folders in a folder.

    Raises OSError if it cannot be listed; FileNotFoundError if it is missing.
    """
    with convert_remote_errors(folder):
        if is_local(folder):
            return [path.name for path in folder.iterdir()]
        # UPath.iterdir sends three requests, and reports any failure as a
        # missing folder.
        paths = folder.fs.ls(folder.path, detail=False)
        return [path.rstrip("/").rpartition("/")[2] for path in paths]


def error_reason(error):
    """Returns the reason of an OSError in words."""
    number = error.errno
    # fsspec's has no number, and only the path as its text.
    if isinstance(error, FileNotFoundError):
        number = errno.ENOENT
    if number:
        return os.strerror(number)
    return _one_line(error) or type(error).__name__


def _one_line(error):
    return " ".join(str(error).split())
