"""A model directory as KerasHub's preset folder, and back."""

import os
import pathlib
import shutil

from export.errors import InputError
from export.files.atomic import written_whole
from export.keras_hub_task.directories import is_model_directory
from export.keras_hub_task.task import TransformerSeq2SeqLM
from export.model_directory import ModelDirectory


def write_preset(directory, path):
    """Turns a model directory into a preset folder.

    Args:
        directory: ModelDirectory of a translator.
        path: of the folder; nothing is there yet.

    Raises:
        InputError: the directory is not whole, or there is something.
    """
    path = pathlib.Path(path)
    if path.exists():
        raise InputError(f"{path} is there already; name a new folder.")
    # KerasHub would speak of presets.
    directory.read_config()
    task = TransformerSeq2SeqLM.from_preset(str(directory.path))
    with written_whole(path) as temporary:
        task.save_to_preset(str(temporary))
        _copy(directory.run_path, temporary)


def write_model_directory(preset, directory):
    """Turns a preset of TransformerSeq2SeqLM into a model directory.

    Args:
        preset: path of a preset folder, or a handle that KerasHub knows.
        directory: ModelDirectory; nothing is there yet.

    Raises:
        InputError: it is no such preset, or there is something.
    """
    if directory.path.exists():
        raise InputError(
            f"{directory.path} is there already; name a new folder."
        )
    if is_model_directory(preset):
        raise InputError(f"{preset} is a model directory already.")
    try:
        task = TransformerSeq2SeqLM.from_preset(preset)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{preset} is no preset of a TransformerSeq2SeqLM: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    with written_whole(directory.path) as temporary:
        temporary.mkdir(exist_ok=True)
        written = ModelDirectory(temporary)
        written.write_config(task.backbone.config)
        written.write_vocabulary(task.preprocessor.tokenizer.proto)
        written.write_weights(task.backbone.transformer)
        run = pathlib.Path(preset) / written.run_path.name
        if run.is_file():
            _copy(run, temporary)
        else:
            written.write_run({"preset": os.fspath(preset)})


def _copy(file, folder):
    if file.is_file():
        shutil.copyfile(file, folder / file.name)
