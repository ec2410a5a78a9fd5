"""Writes a model in Hugging Face's format: `python -m export.marian`.

    python -m export.marian --model_dir=runs/demo --output_dir=marian

`MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` load the
directory, Marian itself does not; `export.import_marian --hf` converts it back.
"""

import pathlib

from absl import flags

from export.common import command
from export.common.storage import atomic_write

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The model directory.", required=True)
flags.DEFINE_string("output_dir", None, "New folder to write.", required=True)


def main(arguments):
    """Writes a directory for MarianMTModel."""
    del arguments
    path = pathlib.Path(FLAGS.output_dir)
    command.validate_new_path(path, "--output_dir")
    # Not at the top: TensorFlow takes seconds to load.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_writer import write_hugging_face

    directory = ModelDirectory(FLAGS.model_dir)
    # Only to raise InputError if the vocabulary is not the model's.
    directory.load_tokenizer()
    model = directory.load_model()
    run = directory.read_run() if directory.run_path.exists() else {}
    languages = run.get("source_language"), run.get("target_language")
    with atomic_write(path) as temporary:
        temporary.mkdir()
        vocabulary = directory.read_vocabulary()
        write_hugging_face(model, vocabulary, languages, temporary)
    print(
        f"Wrote {path}. MarianMTModel ranks by log-probability / length^alpha "
        f"and ends after {model.config.max_extra_tokens} tokens; "
        "docs/pretrained.md says how else its translations may differ."
    )


if __name__ == "__main__":
    command.run(main)
