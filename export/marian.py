"""Writes a model in Hugging Face's format: `python -m export.marian`.

    python -m export.marian --model_dir=runs/demo --output_dir=marian

`MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` load the
directory, Marian itself does not; `export.import_marian --hf` converts it back.
"""

from absl import flags

from export.common import command
from export.common.storage import atomic_write

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The model directory.", required=True)
flags.DEFINE_string("output_dir", None, "New folder to write.", required=True)


def main(arguments: list[str]) -> None:
    """Writes a directory for MarianMTModel."""
    del arguments
    path = command.new_path("output_dir")
    # Not at the top: TensorFlow takes seconds to load.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_writer import write_hugging_face

    directory = ModelDirectory(FLAGS.model_dir)
    model, _, _ = directory.load()
    vocabulary = directory.read_vocabulary()
    languages = directory.read_languages()
    with atomic_write(path) as temporary:
        temporary.mkdir()
        write_hugging_face(model, vocabulary, languages, temporary)
    print(
        f"Wrote {path}. MarianMTModel ranks by log-probability / length^alpha "
        f"and ends after {model.config.max_extra_tokens} tokens; "
        "docs/pretrained.md says how else its translations may differ."
    )


if __name__ == "__main__":
    command.run(main)
