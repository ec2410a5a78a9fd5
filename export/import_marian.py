"""Makes a model directory of a pretrained model: `export.import_marian`.

    python -m export.import_marian --hf=DIR --model_dir=runs/opus
    python -m export.import_marian --npz=DIR --model_dir=runs/opus

After --hf DIR is as Hugging Face's `MarianMTModel.save_pretrained` and
`MarianTokenizer.save_pretrained` write it, after --npz as Marian itself does
and as OPUS-MT's archives have it. No pickle in it is run.

    python -m export.import_marian --model_dir=runs/opus --check=FILE

FILE is the *.test.txt that OPUS-MT publishes beside a model's archive: a test
set and Marian's translations of it, with which those of the model directory
are compared; --hf or --npz beside it imports the model first.
"""

import pathlib

from absl import flags

from export.common import command
from export.common.atomic_files import atomic_write
from export.common.errors import InputError
from export.lines.published import read_published

FLAGS = flags.FLAGS

flags.DEFINE_string("hf", None, "A directory of MarianMTModel.save_pretrained.")
flags.DEFINE_string(
    "npz",
    None,
    "A directory of Marian's own: decoder.yml, and what it names, and "
    "source.spm and target.spm.",
)
flags.DEFINE_string(
    "model_dir",
    None,
    "The model directory: a new one, or with --check alone the one to check.",
    required=True,
)
flags.DEFINE_string(
    "check",
    None,
    "A *.test.txt of OPUS-MT, whose translations are compared with those of "
    "--model_dir.",
)


def main(arguments):
    """Imports or checks a model, and prints what can be done next."""
    del arguments
    path = pathlib.Path(FLAGS.model_dir)
    published = FLAGS.check and read_published(FLAGS.check)
    is_import = FLAGS.hf is not None or FLAGS.npz is not None
    if is_import or not published:
        _import(path)
    if published:
        _check(path, published)
    translate = command.command_line("export.translate", f"--model={path}")
    command.print_next(
        f"{translate} < text",
        command.command_line(
            *("export.saved_model", f"--model_dir={path}"),
            "--export_dir=exports/translator",
        ),
    )


def _import(path):
    if (FLAGS.hf is None) == (FLAGS.npz is None):
        raise InputError(
            "Give one of --hf and --npz, the directory of the model to import; "
            "--help says which is which."
        )
    flag, file = ("hf", "config.json") if FLAGS.hf else ("npz", "decoder.yml")
    folder = pathlib.Path(FLAGS[flag].value)
    if not folder.is_dir():
        raise InputError(
            f"There is no directory {folder}; give --{flag} the directory "
            f"that holds {file}."
        )
    command.require_new(path, "--model_dir")
    # TensorFlow takes seconds to load, and wrong flags are refused before.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_reader import read_hugging_face
    from export.pretrained.marian_reader import read_marian

    read = read_hugging_face if FLAGS.hf else read_marian
    pretrained = read(folder)
    config = pretrained.model.config
    with atomic_write(path) as temporary:
        temporary.mkdir()
        directory = ModelDirectory(temporary)
        directory.write_vocabulary(pretrained.vocabulary)
        directory.write_run(
            {
                "dataset": f"imported from {folder.resolve().name}",
                "source_language": pretrained.source_language,
                "target_language": pretrained.target_language,
            }
        )
        directory.write_weights(pretrained.model)
        directory.write_config(config)
    for note in pretrained.notes:
        print(f"Note: {note}.")
    print(
        f"Wrote {path}: {pretrained.model.count_params():,} parameters, "
        f"{config.num_layers} + {config.decoder_layers} layers, "
        f"{config.vocabulary_size:,} pieces.",
        flush=True,
    )


def _check(path, published):
    from export.ctranslate2.published_check import compare_with_published
    from export.translators.translator import Translator

    translator = Translator.from_directory(path)
    config = translator.model.config
    lines = compare_with_published(translator, published)
    print(
        f"Compared on {FLAGS.check}, beam {config.beam_size}, alpha "
        f"{config.alpha}:",
        *lines,
        sep="\n",
        flush=True,
    )


if __name__ == "__main__":
    command.run(main)
