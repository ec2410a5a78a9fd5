"""Converts a model directory to a KerasHub preset folder and back."""

import os
import pathlib
import shutil

from export.common import command
from export.common.atomic_files import atomic_write
from export.common.errors import InputError
from export.keras_hub_task.backbone import is_model_directory
from export.keras_hub_task.task import TransformerSeq2SeqLM
from export.model_directory import ModelDirectory


def write_preset(directory, path):
    """Writes a preset folder; InputError if damaged, or if the path exists."""
    path = pathlib.Path(path)
    command.require_new(path, "--preset")
    # Raises a clearer error than KerasHub.
    directory.read_config()
    task = TransformerSeq2SeqLM.from_preset(str(directory.path))
    with atomic_write(path) as temporary:
        task.save_to_preset(str(temporary))
        if directory.run_path.is_file():
            shutil.copy(directory.run_path, temporary)


def write_model_directory(preset, directory):
    """Writes a preset of TransformerSeq2SeqLM as a new ModelDirectory.

    `preset` is the path of a preset folder, or a handle that KerasHub knows.

    Raises:
        InputError: `preset` is not such a preset, or the directory exists.
    """
    command.require_new(directory.path, "--model_dir")
    if is_model_directory(preset):
        raise InputError(f"{preset} is a model directory already.")
    try:
        task = TransformerSeq2SeqLM.from_preset(preset)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{preset} is not a preset of a TransformerSeq2SeqLM: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    with atomic_write(directory.path) as temporary:
        temporary.mkdir(exist_ok=True)
        written = ModelDirectory(temporary)
        written.write_config(task.backbone.config)
        written.write_vocabulary(task.preprocessor.tokenizer.proto)
        written.write_weights(task.backbone.transformer)
        run = pathlib.Path(preset) / written.run_path.name
        if run.is_file():
            shutil.copy(run, temporary)
        else:
            written.write_run({"preset": os.fspath(preset)})
