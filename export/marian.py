"""Writes a model in Hugging Face's format, or Marian's: `export.marian`.

    python -m export.marian --model_dir=runs/demo --output_dir=marian

`MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained` load the
directory, Marian itself does not; `export.import_marian --hf` converts it back.
With --npz the files are Marian's own, and `export.import_marian --npz` does.
"""

from absl import flags

from export.common import command
from export.common.storage import atomic_write
from export.translators import search_flags

FLAGS = flags.FLAGS

search_flags.define_folders()
flags.DEFINE_bool("npz", False, "Write the files of Marian itself.")


def main(arguments: list[str]) -> None:
    """Writes a directory for MarianMTModel, or for Marian."""
    del arguments
    path = command.new_path("output_dir")
    # Not at the top: TensorFlow takes seconds to load.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_writer import write_hugging_face
    from export.pretrained.marian_writer import write_marian

    directory = ModelDirectory(FLAGS.model_dir)
    model, _, _ = directory.load()
    vocabulary = directory.read_vocabulary()
    languages = directory.read_languages()
    with atomic_write(path) as temporary:
        temporary.mkdir()
        if FLAGS.npz:
            write_marian(model, vocabulary, temporary)
        else:
            write_hugging_face(model, vocabulary, languages, temporary)
    if FLAGS.npz:
        print(
            f"Wrote {path}; marian-decoder --config={path / 'decoder.yml'} "
            "ranks by log-probability / length^alpha and narrows its beam with "
            "each hypothesis that ends."
        )
        return
    print(
        f"Wrote {path}. MarianMTModel ranks by log-probability / length^alpha "
        f"and ends after {model.config.max_extra_tokens} tokens; "
        "docs/pretrained.md says how else its translations may differ."
    )


if __name__ == "__main__":
    command.run(main)
