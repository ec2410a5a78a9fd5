"""Makes a model directory of a pretrained model: `export.import_marian`.

    python -m export.import_marian --hf=DIR --model_dir=runs/opus
    python -m export.import_marian --npz=DIR --model_dir=runs/opus

DIR is of Marian's. After --hf it is as Hugging Face's
`MarianMTModel.save_pretrained` and `MarianTokenizer.save_pretrained` write it,
after --npz as Marian itself does and as OPUS-MT's archives have it. Nothing in
it is run or unpickled.

    python -m export.import_marian --model_dir=runs/opus --check=FILE

FILE is the *.test.txt that OPUS-MT publishes beside a model's archive: a test
set and what Marian made of it. What the model directory makes of it is compared
with that; --hf or --npz beside it imports the model first.
"""

import pathlib
import shlex

from absl import flags

from export import command
from export.errors import InputError
from export.files.atomic import written_whole
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
    "The model directory to write; nothing is there yet, unless it is only "
    "checked.",
    required=True,
)
flags.DEFINE_string(
    "check",
    None,
    "A *.test.txt of OPUS-MT, whose translations are compared with those of "
    "--model_dir.",
)

# Which flag names a directory that holds what.
_HOLDING = {"hf": "config.json", "npz": "decoder.yml"}


def main(arguments):
    """Imports, and says what can be done next."""
    del arguments
    path = pathlib.Path(FLAGS.model_dir)
    published = FLAGS.check and read_published(FLAGS.check)
    is_import = FLAGS.hf is not None or FLAGS.npz is not None
    if is_import or not published:
        _import(path, *_given())
    if published:
        _check(path, published)
    quoted = shlex.quote(str(path))
    print(
        "Next:",
        f"  python -m export.translate --model={quoted} < text",
        f"  python -m export.saved_model --model_dir={quoted} "
        "--export_dir=exports/translator",
        sep="\n",
        flush=True,
    )


def _import(path, kind, folder):
    if path.exists():
        raise InputError(
            f"{path} exists and is never overwritten; name another "
            "--model_dir, or remove it first."
        )
    # TensorFlow takes seconds to load, and a wrong flag is said at once.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face import read_hugging_face
    from export.pretrained.marian_npz import read_marian

    read = {"hf": read_hugging_face, "npz": read_marian}[kind]
    found = read(folder)
    with written_whole(path) as temporary:
        temporary.mkdir()
        _write(ModelDirectory(temporary), found, folder)
    for note in found.notes:
        print(f"Note: {note}.")
    config = found.model.config
    print(
        f"Wrote {path}: {found.model.count_params():,} parameters, "
        f"{config.num_layers} + {config.decoder_layers} layers, "
        f"{config.vocabulary_size:,} pieces.",
        flush=True,
    )


def _check(path, published):
    from export.conversion.published_check import compared
    from export.translators.translator import Translator

    translator = Translator.from_directory(path)
    config = translator.model.config
    lines = compared(translator, published)
    print(
        f"Compared on {FLAGS.check}, beam {config.beam_size}, alpha "
        f"{config.alpha}:",
        *lines,
        sep="\n",
        flush=True,
    )


def _given():
    """Returns which flag names what comes in, and its pathlib.Path."""
    kinds = [name for name in _HOLDING if FLAGS[name].value is not None]
    if len(kinds) != 1:
        raise InputError(
            "Give one of --hf and --npz, the directory of the model to import; "
            "--help says which is which."
        )
    (kind,) = kinds
    folder = pathlib.Path(FLAGS[kind].value)
    if not folder.is_dir():
        raise InputError(
            f"There is no directory {folder}; give --{kind} the directory "
            f"that holds {_HOLDING[kind]}."
        )
    return kind, folder


def _write(directory, found, folder):
    directory.write_vocabulary(found.vocabulary)
    directory.write_run(
        {
            "dataset": f"imported from {folder.resolve().name}",
            "source_language": found.source_language,
            "target_language": found.target_language,
        }
    )
    directory.write_weights(found.model)
    directory.write_config(found.model.config)


if __name__ == "__main__":
    command.run(main)
