"""Converts to and from KerasHub presets: `python -m export.keras_hub`.

    python -m export.keras_hub --model_dir=runs/demo --preset=presets/demo

writes a folder that `keras_hub.models.Seq2SeqLM.from_preset` loads after
`export.keras_hub_task` is imported, and that `keras_hub.upload_preset` takes.
The reverse reads a preset folder or a handle that KerasHub knows:

    python -m export.keras_hub --from_preset=presets/demo --model_dir=runs/back
"""

import pathlib

from absl import flags, logging

from export.common import command
from export.common.errors import InputError
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
    "from_preset", None, "The preset to make the model directory of."
)


def main(arguments):
    """Writes a preset or a model directory."""
    del arguments
    if (FLAGS.preset is None) == (FLAGS.from_preset is None):
        raise InputError(
            "Give --preset, the folder to write, or --from_preset, the preset "
            "to make --model_dir of."
        )
    # Not at the top: KerasHub takes seconds to load, and warns without JAX.
    logging.set_verbosity(logging.ERROR)
    from export.keras_hub_task import presets

    directory = ModelDirectory(FLAGS.model_dir)
    if FLAGS.from_preset:
        presets.write_model_directory(FLAGS.from_preset, directory)
        print(f"Wrote {directory.path}.")
        command.print_next(
            command.command_line(
                "export.translate", f"--model={directory.path}"
            )
        )
        return
    presets.write_preset(directory, FLAGS.preset)
    size = sum(
        file.stat().st_size
        for file in pathlib.Path(FLAGS.preset).rglob("*")
        if file.is_file()
    )
    print(
        f"Wrote {FLAGS.preset} ({size / 1e6:.1f} MB). In Python:",
        "  from export.keras_hub_task import TransformerSeq2SeqLM",
        f"  task = TransformerSeq2SeqLM.from_preset({FLAGS.preset!r})",
        "To upload it:",
        f"  keras_hub.upload_preset('hf://USER/MODEL', {FLAGS.preset!r})",
        sep="\n",
    )


if __name__ == "__main__":
    command.run(main)
