"""Finds what --model names, and loads it."""

import pathlib

from export.errors import InputError
from export.versions import is_version


def open_translator(model, batch_tokens, search):
    """Returns what translates for a model directory or an export.

    Args:
        model: path of a model directory, of an exported version, or of the
            folder that holds exported versions, of which the newest is taken.
        batch_tokens: source positions in a batch, padding counted.
        search: dict of what IdTranslator takes, only what was asked for.

    Raises:
        InputError: it is none of these, or an export, whose search was fixed
            when it was made.
    """
    path = pathlib.Path(model)
    if not path.is_dir():
        raise InputError(
            f"There is no folder {path}; --model must be a model directory "
            "or an exported version."
        )
    version = _exported_version(path)
    # Only one of the two is imported: a session that behaves as the server's
    # wants a process without Python's TensorFlow.
    if version is None:
        from export.translator import Translator

        return Translator.from_directory(
            path, batch_tokens=batch_tokens, **search
        )
    if search:
        flags = ", ".join(f"--{name}" for name in search)
        raise InputError(
            f"{version} is an export, and its search was fixed when it was "
            f"made: leave out {flags}, or give the model directory."
        )
    from export.exported_translator import ExportedTranslator

    return ExportedTranslator(version, batch_tokens)


def _exported_version(path):
    if (path / "saved_model.pb").exists():
        return path
    versions = [child for child in path.iterdir() if is_version(child.name)]
    return max(versions, key=lambda child: int(child.name), default=None)
