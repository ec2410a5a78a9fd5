"""Converts to and from KerasHub presets: `python -m export.keras_hub`.

    python -m export.keras_hub --model_dir=runs/demo --preset=presets/demo

writes a folder for `keras_hub.upload_preset`, and after importing
`export.keras_hub_task` for `keras_hub.models.Seq2SeqLM.from_preset`.

    python -m export.keras_hub --from_preset=presets/demo --model_dir=runs/back

writes a model directory.
"""

import shutil

from absl import flags, logging

from export.common import command
from export.common.errors import InputError
from export.common.packages import KERAS_HUB_VERSIONS, find_unsupported_version
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


def main(arguments: list[str]) -> None:
    """Writes a preset or a model directory."""
    del arguments
    message = find_unsupported_version(KERAS_HUB_VERSIONS)
    if message is not None:
        raise InputError(message)
    if (FLAGS.preset is None) == (FLAGS.from_preset is None):
        raise InputError(
            "Give either --preset, the folder to write, or --from_preset, the "
            "preset to read."
        )
    # KerasHub warns without JAX.
    logging.set_verbosity(logging.ERROR)
    if FLAGS.from_preset:
        _read_preset(FLAGS.from_preset)
    else:
        _write_preset(ModelDirectory(FLAGS.model_dir))


def _write_preset(directory):
    path = command.new_path("preset")
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


def _read_preset(preset):
    path = command.new_path("model_dir")
    from export.keras_hub_task import TransformerSeq2SeqLM
    from export.pretrained.pretrained_model import write_model_directory

    try:
        task = TransformerSeq2SeqLM.from_preset(preset)
    except (ValueError, OSError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{preset} is not a preset of a TransformerSeq2SeqLM: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    preprocessor = task.preprocessor
    original = ModelDirectory(preset)
    if original.run_path.is_file():
        run = original.read_run()
    else:
        run = {
            "preset": preset,
            "source_language": preprocessor.source_language,
            "target_language": preprocessor.target_language,
        }
        run = {name: each for name, each in run.items() if each}
    transformer = task.backbone.transformer
    write_model_directory(path, transformer, preprocessor.tokenizer.proto, run)
    print(f"Wrote {path}.")
    command.print_next(
        command.command_line("export.translate", f"--model={path}")
    )


if __name__ == "__main__":
    command.run(main)
