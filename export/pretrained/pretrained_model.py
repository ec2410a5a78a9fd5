"""A pretrained model, and how commands that import one write it."""

import pathlib
import typing

import keras_transformer as kt
from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory


class PretrainedModel(typing.NamedTuple):
    """A pretrained model read from a directory."""

    model: kt.Transformer
    # Content of a `vocabulary.model`.
    vocabulary: bytes
    # Codes of source and target, None if the directory lacks them.
    languages: tuple[str | None, ...]
    # About settings of the directory that are ignored.
    warnings: list[str]


def write_pretrained(
    path: pathlib.Path,
    folder: pathlib.Path,
    pretrained: PretrainedModel,
    **changes: typing.Any,
) -> None:
    """Writes a PretrainedModel, and prints its size and warnings.

    `path` is the new model directory, `folder` the directory that was read, and
    `changes` are values of flags for fields of the configuration.
    """
    try:
        config = pretrained.model.config.replace(**changes)
    except ValueError as error:
        raise InputError(f"--{error}") from error
    source_language, target_language = pretrained.languages
    run = {
        "dataset": f"imported from {folder.resolve().name}",
        "source_language": source_language,
        "target_language": target_language,
    }
    write_model_directory(
        path, pretrained.model, pretrained.vocabulary, run, config
    )
    # Without repetitions: source and target may have the same warning.
    for warning in dict.fromkeys(pretrained.warnings):
        print(f"Warning: {warning}.")
    print(
        f"Wrote {path}: {pretrained.model.count_params():,} parameters, "
        f"{config.num_layers} + {config.decoder_layers} layers, "
        f"{config.vocabulary_size:,} pieces.",
        flush=True,
    )


def write_model_directory(path: pathlib.Path, *content: typing.Any) -> None:
    """Writes a new model directory with the content of `write`, or nothing."""
    with atomic_write(path) as temporary:
        temporary.mkdir()
        ModelDirectory(temporary).write(*content)


def print_next_commands(path: pathlib.Path, *languages: str) -> None:
    """Prints how to translate with a new model directory, and to export it.

    `languages` are flags of both commands.
    """
    translate = command.command_line(
        "export.translate", f"--model={path}", *languages
    )
    export = command.command_line(
        "export.saved_model",
        f"--model_dir={path}",
        "--export_dir=exports/translator",
        *languages,
    )
    command.print_next(f"{translate} < text", export)
