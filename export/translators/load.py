"""Finds what --model names, and loads it."""

import pathlib

from export.common.errors import InputError
from export.server_runtime.export_directory import (
    is_folder,
    newest_version,
    task_of,
)
from export.translators import shortlist, target_pieces

# What an export cannot do: the flag that asks for it, and why.
_NOT_EXPORTED = {
    "compiled": "which is not compiled as a server compiles nothing",
    "prefixes": "whose search takes no prefixes",
}


def load_translator(models, batch_tokens, search, wanted=()):
    """Returns what translates for model directories or an export.

    Args:
        models: list of paths: model directories that decode together, or one
            exported version, or one folder that holds exported versions, of
            which the newest is taken.
        batch_tokens: source positions in a batch, padding counted.
        search: dict of what IdTranslator takes and `ensemble_mean`, only what
            was asked for; of target pieces the files that have them, of a
            shortlist its file, with `shortlist_size` beside.
        wanted: of "compiled" and "prefixes", what the translator must do.

    Returns:
        TextTranslator.

    Raises:
        InputError: a path is none of these; one of several, or one with a
            search or with what no export does, is an export, or one is of a
            parser; the models do not go together, or the flags; a file of
            target pieces or of a shortlist is none.
    """
    paths = [pathlib.Path(model) for model in models]
    for path in paths:
        if not is_folder(path):
            raise InputError(
                f"There is no folder {path}; a model directory or an exported "
                "version was expected."
            )
    versions = [newest_version(path) for path in paths]
    # Only one of the two is imported: an export needs no Keras.
    if not any(versions):
        from export.translators.translator import Translator

        search = dict(search)
        for name in ("target_pieces", "shortlist"):
            if "prefixes" in wanted and name in search:
                raise InputError(
                    f"--prefixes may have any piece, and --{name} says which "
                    "ones translations have: leave out one of them."
                )
        model, tokenizer = load_models(paths, search.pop("ensemble_mean", None))
        search = shortlist.load_shortlist(search, tokenizer, model.config)
        search = target_pieces.load_shortlist(search, tokenizer)
        return Translator(
            model,
            tokenizer,
            batch_tokens=batch_tokens,
            compiled="compiled" in wanted,
            **search,
        )
    version = next(filter(None, versions))
    if task_of(version) == "parsing":
        raise InputError(
            f"{version} is the export of a parser, which translates nothing: a "
            "server answers with its trees, and export.parse and "
            "trainers.evaluate take the model directory it was made from."
        )
    for flag in wanted:
        raise InputError(
            f"{version} is an export, {_NOT_EXPORTED[flag]}: leave out "
            f"--{flag}, or give the model directory it was made from."
        )
    if len(versions) > 1:
        raise InputError(
            "Several models decode together from model directories, and "
            f"{version} is an export: give the model directory it was made "
            "from."
        )
    if search:
        flags = ", ".join(f"--{name}" for name in search)
        raise InputError(
            f"{version} is an export, and its search was fixed when it was "
            f"made: leave out {flags}, or give the model directory."
        )
    from export.translators.exported_translator import ExportedTranslator

    return ExportedTranslator(version, batch_tokens)


def load_models(paths, ensemble_mean=None):
    """Loads one model, or models that decode together.

    Args:
        paths: of the model directories, one or more.
        ensemble_mean: `mean` of kt.Ensemble; None for its default.

    Returns:
        (Transformer or kt.Ensemble, Tokenizer or TokenizerPair).

    Raises:
        InputError: one is not a whole model directory; vocabularies differ;
            a mean is asked for of one model.
    """
    from export.model_directory import ModelDirectory

    directories = [ModelDirectory(path) for path in paths]
    tokenizers = [directory.load_tokenizer() for directory in directories]
    protos = [
        (tokenizer.source.proto, tokenizer.target.proto)
        for tokenizer in tokenizers
    ]
    require_one(paths, protos, "vocabularies")
    return load_together(directories, ensemble_mean), tokenizers[0]


def load_together(directories, ensemble_mean=None):
    """Loads the model of a directory, or those of several as one.

    Args:
        directories: list of ModelDirectory, one or more; `require_one` has
            been asked whether they go together.
        ensemble_mean: as for `load_models`.

    Returns:
        Transformer or kt.Ensemble.

    Raises:
        InputError: as for `load_models`.
    """
    import keras_transformer as kt

    if len(directories) == 1 and ensemble_mean is not None:
        raise InputError(
            "--ensemble_mean is of several models; give --model again for "
            "each of them, or leave it out."
        )
    models = [directory.load_model() for directory in directories]
    if len(models) == 1:
        return models[0]
    mean = {"mean": ensemble_mean} if ensemble_mean else {}
    try:
        return kt.Ensemble(models, **mean)
    except ValueError as error:
        raise InputError(str(error)) from error


def require_one(paths, contents, what):
    """Refuses models that cannot decode together.

    Args:
        paths: of the models.
        contents: of each, what must be the same.
        what: name of it, in the plural.

    Raises:
        InputError: one differs from the first.
    """
    for path, content in zip(paths, contents):
        if content != contents[0]:
            raise InputError(
                f"{paths[0]} and {path} have different {what}; only models "
                f"with the same {what} decode together."
            )
