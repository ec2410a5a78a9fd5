"""Converts to and from KerasHub presets: `python -m export.keras_hub`.

    python -m export.keras_hub --model_dir=runs/demo --preset=presets/demo

writes a folder for `keras_hub.upload_preset`, and after importing
`export.keras_hub_task` for `keras_hub.models.Seq2SeqLM.from_preset`.

    python -m export.keras_hub --from_preset=presets/demo --model_dir=runs/back

writes a model directory.
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
    "Model directory to read; with --from_preset, a new one to write.",
    required=True,
)
flags.DEFINE_string("preset", None, "New preset folder to write.")
flags.DEFINE_string("from_preset", None, "Preset folder or hf://USER/MODEL.")


def main(arguments):
    """Writes a preset or a model directory."""
    del arguments
    if (FLAGS.preset is None) == (FLAGS.from_preset is None):
        raise InputError(
            "Give either --preset, the folder to write, or --from_preset, the "
            "preset to read."
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

    # Only to raise a clearer error than KerasHub's if it is damaged.
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
        temporary.mkdir()
        new_directory = ModelDirectory(temporary)
        new_directory.write_config(task.backbone.config)
        new_directory.write_vocabulary(task.preprocessor.tokenizer.proto)
        new_directory.write_weights(task.backbone.transformer)
        run_path = pathlib.Path(preset, new_directory.run_path.name)
        if run_path.is_file():
            shutil.copy(run_path, temporary)
        else:
            preprocessor = task.preprocessor
            languages = {
                "source_language": preprocessor.source_language,
                "target_language": preprocessor.target_language,
            }
            new_directory.write_run(
                {"preset": preset}
                | {name: code for name, code in languages.items() if code}
            )
    print(f"Wrote {directory.path}.")
    model_flag = f"--model={directory.path}"
    command.print_next(command.command_line("export.translate", model_flag))


if __name__ == "__main__":
    command.run(main)
