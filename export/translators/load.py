"""Finds what --model names, and loads it."""

import pathlib

from export.errors import InputError
from export.server_runtime.saved_model import exported_version, is_folder


def open_translator(models, batch_tokens, search):
    """Returns what translates for model directories or an export.

    Args:
        models: list of paths: model directories that decode together, or one
            exported version, or one folder that holds exported versions, of
            which the newest is taken.
        batch_tokens: source positions in a batch, padding counted.
        search: dict of what IdTranslator takes and `ensemble_mean`, only what
            was asked for.

    Raises:
        InputError: one is none of these; one of several, or one with a
            search, is an export, whose search was fixed when it was made; the
            models do not go together.
    """
    paths = _folders(models)
    versions = [exported_version(path) for path in paths]
    # Only one of the two is imported: a session that behaves as the server's
    # wants a process without Python's TensorFlow.
    if not any(versions):
        from export.translators.translator import Translator

        return Translator.from_directories(
            paths, batch_tokens=batch_tokens, **search
        )
    if len(versions) > 1:
        raise InputError(
            "Several models decode together from model directories, and "
            f"{next(filter(None, versions))} is an export: give the model "
            "directory it was made from."
        )
    (version,) = versions
    if search:
        flags = ", ".join(f"--{name}" for name in search)
        raise InputError(
            f"{version} is an export, and its search was fixed when it was "
            f"made: leave out {flags}, or give the model directory."
        )
    from export.translators.exported_translator import ExportedTranslator

    return ExportedTranslator(version, batch_tokens)


def open_compiled_translator(models, search):
    """Returns what translates one sentence at a time, compiled.

    Args:
        models: list of paths of model directories.
        search: as for `open_translator`.

    Raises:
        InputError: one is no model directory, or an export; the models do not
            go together; there would be too much to make room for.
    """
    paths = _model_directories(
        models,
        "which is not compiled as a server compiles nothing: leave out "
        "--compiled",
    )
    from export.translators.compiled_translator import CompiledTranslator

    return CompiledTranslator.from_directories(paths, **search)


def open_prefix_translator(models, batch_tokens, search):
    """Returns what finds translations that begin with what is given.

    Args:
        models: list of paths of model directories.
        batch_tokens: as for `open_translator`.
        search: likewise.

    Raises:
        InputError: one is no model directory, or an export; the models do not
            go together.
    """
    paths = _model_directories(
        models, "whose search takes no prefixes: leave out --prefixes"
    )
    from export.translators.prefix_translator import PrefixTranslator

    return PrefixTranslator.from_directories(
        paths, batch_tokens=batch_tokens, **search
    )


def _model_directories(models, why_no_export):
    paths = _folders(models)
    version = next(filter(None, map(exported_version, paths)), None)
    if version:
        raise InputError(
            f"{version} is an export, {why_no_export}, or give the model "
            "directory it was made from."
        )
    return paths


def _folders(models):
    paths = [pathlib.Path(model) for model in models]
    for path in paths:
        if not is_folder(path):
            raise InputError(
                f"There is no folder {path}; a model directory or an exported "
                "version was expected."
            )
    return paths
