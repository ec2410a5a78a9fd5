"""The folder of an export: its versions, and how a version describes itself.

Read without TensorFlow and Keras.
"""

import json
import pathlib

from export.common.errors import InputError

# Relative to a version's folder, in the part of it that TensorFlow Serving
# ignores. Which of the two an export has says what its model was trained for.
DESCRIPTION_FILES = {
    "translation": pathlib.PurePath("assets.extra", "translator.json"),
    "parsing": pathlib.PurePath("assets.extra", "parser.json"),
}
_COMMON_LIMITS = {"beam_size", "alpha", "max_source_tokens"}
_LIMITS = {
    "translation": _COMMON_LIMITS | {"stop", "max_output_extra"},
    "parsing": _COMMON_LIMITS,
}


def is_version(name):
    """Returns whether TensorFlow Serving reads a folder's name as a version."""
    return name.isascii() and name.isdecimal()


def is_folder(path):
    """Returns whether a path is a folder; an InputError where access fails."""
    try:
        return path.is_dir()
    except OSError as error:
        raise _unreadable(path, error) from error


def newest_version(path):
    """Finds the exported version that a folder is or holds.

    Args:
        path: pathlib.Path of a folder, or of nothing.

    Returns:
        pathlib.Path of the version, the newest of several; or None.

    Raises:
        InputError: the folder cannot be read.
    """
    if not is_folder(path):
        return None
    try:
        if (path / "saved_model.pb").exists():
            return path
        versions = [child for child in path.iterdir() if is_version(child.name)]
    except OSError as error:
        raise _unreadable(path, error) from error
    return max(versions, key=lambda child: int(child.name), default=None)


def version_number(export_dir, requested=None):
    """Returns the number of the version to write, by default the next one.

    Args:
        export_dir: pathlib.Path of the folder of versions.
        requested: int of --version, or None.

    Raises:
        InputError: the version exists, or the number is below 1.
    """
    versions = []
    if export_dir.is_dir():
        names = [path.name for path in export_dir.iterdir()]
        versions = [int(name) for name in names if is_version(name)]
    if requested is None:
        return max(versions, default=0) + 1
    if requested < 1:
        raise InputError(f"--version must be at least 1, got {requested}.")
    if requested in versions:
        raise InputError(
            f"{export_dir / str(requested)} exists and is never overwritten; "
            "omit --version for the next free number."
        )
    return requested


def task_of(version):
    """Returns "parsing" for a parser's version, else "translation"."""
    is_parser = (version / DESCRIPTION_FILES["parsing"]).exists()
    return "parsing" if is_parser else "translation"


def read_description(version):
    """Reads a version's description.

    Args:
        version: pathlib.Path of the version's folder.

    Returns:
        A dict.

    Raises:
        InputError: it is missing, or not valid.
    """
    task = task_of(version)
    path = version / DESCRIPTION_FILES[task]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        missing = _LIMITS[task].difference(content["limits"])
        if content["parameters"] < 1 or missing:
            names = ", ".join(sorted(missing)) or "parameters"
            raise ValueError(f"it lacks {names}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unusable(path, error) from error
    return content


def unusable(path, error):
    """Returns the InputError for a damaged file of an export."""
    return InputError(
        f"{path} cannot be used ({error}); export the model again with "
        "export.saved_model."
    )


def _unreadable(path, error):
    return InputError(f"{path} cannot be read: {error.strerror}.")
