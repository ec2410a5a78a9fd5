"""Paths of this machine, and URLs of files that fsspec opens.

A name with "://" in it is a URL, such as `s3://bucket/train.en`: of cloud
storage, or of another machine over SFTP. UPath gives it pathlib.Path's methods,
so that most code need not know which of the two it has.
"""

import contextlib
import errno
import os
import pathlib

from export.common.errors import InputError


def resolve_path(name):
    """Returns the path of a file or folder.

    Args:
        name: str, or a path, which stays as it is.

    Returns:
        pathlib.Path; of a URL UPath.

    Raises:
        InputError: fsspec opens no such URL, or needs another package to.
    """
    if not isinstance(name, str):
        return name
    if "://" not in name:
        return pathlib.Path(name)
    # Few need it, and it imports fsspec.
    import upath

    try:
        place = upath.UPath(name)
        # Imports what opens it.
        _ = place.fs
    except Exception as error:
        raise InputError(
            f"Cannot use {name}: {_one_line(error)}. It must be a path, or a "
            "URL that fsspec opens with the packages that are installed, such "
            "as s3://bucket/folder with s3fs."
        ) from error
    return place


def is_local(place):
    """Returns whether a path is one of this machine, not a URL."""
    return isinstance(place, pathlib.Path)


@contextlib.contextmanager
def convert_remote_errors(place):
    """Gives what goes wrong with a URL the type that it has with a path.

    Args:
        place: of `resolve_path`.

    Raises:
        OSError: whatever the packages that open the URL raised.
    """
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        if is_local(place):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def explain_file_errors(place):
    """Says in one sentence what goes wrong with a file or folder.

    Args:
        place: of `resolve_path`.

    Raises:
        InputError: in place of any OSError, and as of `convert_remote_errors`.
    """
    return _told(
        place,
        "Cannot use {}: {}. See to that, then run the same command again.",
    )


def explain_read_errors(place):
    """Says in one sentence why a file cannot be read."""
    return _told(place, "Cannot read {}: {}.")


@contextlib.contextmanager
def _told(place, sentence):
    try:
        with convert_remote_errors(place):
            yield
    except OSError as error:
        raise InputError(sentence.format(place, error_reason(error))) from error


def list_names(folder):
    """Returns the names of the files and folders in a folder, a list.

    Args:
        folder: of `resolve_path`.

    Raises:
        OSError: it cannot be listed; FileNotFoundError where there is none.
    """
    with convert_remote_errors(folder):
        if is_local(folder):
            return [path.name for path in folder.iterdir()]
        # UPath's own asks three times, and takes any failure for no folder.
        paths = folder.fs.ls(folder.path, detail=False)
        return [path.rstrip("/").rpartition("/")[2] for path in paths]


def error_reason(error):
    """Returns what an OSError says is wrong, in words."""
    number = error.errno
    # fsspec's has no number, and the path alone as its text.
    if isinstance(error, FileNotFoundError):
        number = errno.ENOENT
    if number:
        return os.strerror(number)
    return _one_line(error) or type(error).__name__


def _one_line(error):
    return " ".join(str(error).split())
