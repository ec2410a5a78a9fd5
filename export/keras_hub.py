"""Converts to and from KerasHub presets: `python -m export.keras_hub`.

    python -m export.keras_hub --model_dir=runs/demo --preset=presets/demo

writes a folder that `keras_hub.models.Seq2SeqLM.from_preset` loads after
`export.keras_hub_task` is imported, and that `keras_hub.upload_preset` takes.
The reverse reads a preset folder or a handle that KerasHub knows:

    python -m export.keras_hub --from_preset=presets/demo --model_dir=runs/back
"""

import pathlib
import shutil

from absl import flags, logging

from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "model_dir",
    None,
    "The model directory: of a translator, or with --from_preset a new one.",
    required=True,
)
flags.DEFINE_string("preset", None, "The folder to write; a new one.")
flags.DEFINE_string(
    "from_preset", None, "The preset to convert to a model directory."
)


def main(arguments):
    """Writes a preset or a model directory."""
    del arguments
    if (FLAGS.preset is None) == (FLAGS.from_preset is None):
        raise InputError(
            "Give --preset, the folder to write, or --from_preset, the preset "
            "to make --model_dir of."
        )
    # KerasHub warns without JAX.
    logging.set_verbosity(logging.ERROR)
    directory = ModelDirectory(FLAGS.model_dir)
    if FLAGS.from_preset:
        _write_model_directory(FLAGS.from_preset, directory)
    else:
        _write_preset(directory, pathlib.Path(FLAGS.preset))


def _write_preset(directory, path):
    command.validate_new_path(path, "--preset")
    # Not at the top: KerasHub takes seconds to load.
    from export.keras_hub_task import TransformerSeq2SeqLM

    # Raises a clearer error than KerasHub.
    directory.read_config()
    task = TransformerSeq2SeqLM.from_preset(str(directory.path))
    with atomic_write(path) as temporary:
        task.save_to_preset(str(temporary))
        if directory.run_path.is_file():
            shutil.copy(directory.run_path, temporary)
    print(
        f"Wrote {path}. In Python:",
        "  from export.keras_hub_task import TransformerSeq2SeqLM",
        f"  task = TransformerSeq2SeqLM.from_preset({str(path)!r})",
        "To upload it:",
        f"  keras_hub.upload_preset('hf://USER/MODEL', {str(path)!r})",
        sep="\n",
    )


def _write_model_directory(preset, directory):
    command.validate_new_path(directory.path, "--model_dir")
    from export.keras_hub_task import TransformerSeq2SeqLM

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
        run = pathlib.Path(preset, written.run_path.name)
        if run.is_file():
            shutil.copy(run, temporary)
        else:
            written.write_run({"preset": preset})
    print(f"Wrote {directory.path}.")
    translate = f"--model={directory.path}"
    command.print_next(command.command_line("export.translate", translate))


if __name__ == "__main__":
    command.run(main)
