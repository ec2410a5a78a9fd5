"""Paths of this machine, and URLs of files that fsspec opens.

A name with "://" in it is a URL, such as `s3://bucket/train.en`: of cloud
storage, or of another machine over SFTP. UPath gives it pathlib.Path's methods,
so that most code need not know which of the two it has.
"""

import contextlib
import errno
import os
import pathlib

from export.errors import InputError


def place_of(name):
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


def is_here(place):
    """Returns whether a path is one of this machine, not a URL."""
    return isinstance(place, pathlib.Path)


@contextlib.contextmanager
def reached(place):
    """Gives what goes wrong with a URL the type that it has with a path.

    Args:
        place: of `place_of`.

    Raises:
        OSError: whatever the packages that open the URL raised.
    """
    try:
        yield
    except (OSError, InputError):
        raise
    except Exception as error:
        if is_here(place):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error


def explained(place):
    """Says in one sentence what goes wrong with a file or folder.

    Args:
        place: of `place_of`.

    Raises:
        InputError: in place of any OSError, and as of `reached`.
    """
    return _told(
        place,
        "Cannot use {}: {}. See to that, then run the same command again.",
    )


def readable(place):
    """Says in one sentence why a file cannot be read; else as `explained`."""
    return _told(place, "Cannot read {}: {}.")


@contextlib.contextmanager
def _told(place, sentence):
    try:
        with reached(place):
            yield
    except OSError as error:
        raise InputError(sentence.format(place, reason(error))) from error


def names_in(folder):
    """Returns the names of the files and folders in a folder, a list.

    Args:
        folder: of `place_of`.

    Raises:
        OSError: it cannot be listed; FileNotFoundError where there is none.
    """
    with reached(folder):
        if is_here(folder):
            return [path.name for path in folder.iterdir()]
        # UPath's own asks three times, and takes any failure for no folder.
        paths = folder.fs.ls(folder.path, detail=False)
        return [path.rstrip("/").rpartition("/")[2] for path in paths]


def reason(error):
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
