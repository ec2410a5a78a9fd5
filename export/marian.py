"""Exports a model for MarianMTModel: `python -m export.marian`.

    python -m export.marian --model_dir=runs/demo --output_dir=marian

Hugging Face's `MarianMTModel.from_pretrained` and
`MarianTokenizer.from_pretrained` load the directory, and `export.import_marian`
converts it back to an equal model directory.
"""

import pathlib

from absl import flags

from export.common import command
from export.common.storage import atomic_write

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir", None, "The model directory to export.", required=True
)
flags.DEFINE_string(
    "output_dir", None, "Directory to write; a new one.", required=True
)


def main(arguments):
    """Exports a model and prints how its translations may differ."""
    del arguments
    path = pathlib.Path(FLAGS.output_dir)
    command.require_new(path, "--output_dir")
    # Not at the top: TensorFlow takes seconds to load.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_writer import write_hugging_face

    directory = ModelDirectory(FLAGS.model_dir)
    directory.load_tokenizer()
    model = directory.load_model()
    run = directory.read_run() if directory.run_path.exists() else {}
    languages = run.get("source_language"), run.get("target_language")
    with atomic_write(path) as temporary:
        temporary.mkdir()
        write_hugging_face(
            model, directory.read_vocabulary(), languages, temporary
        )
    print(f"Wrote {path}.", *_differences(model.config), sep="\n", flush=True)


def _differences(config):
    """Returns lines on how other programs translate differently."""
    lines = []
    if config.layer_norm_epsilon != 1e-5:
        lines.append(
            f"MarianMTModel adds 1e-05 to the variance in its norms, and this "
            f"model {config.layer_norm_epsilon:g}: its numbers differ by a "
            "few millionths."
        )
    if config.length_penalty != "power":
        lines.append(
            "It ranks by log-probability / length^alpha, and this model by "
            f"length_penalty={config.length_penalty}: some translations "
            "differ."
        )
    lines.append(
        f"It ends an output after {config.max_extra_tokens} tokens (max_length "
        "of generation_config.json), and this model as many after the "
        "source's length."
    )
    return [*lines, "See docs/pretrained.md for other readers."]


if __name__ == "__main__":
    command.run(main)
