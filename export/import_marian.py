"""Imports a pretrained Marian model: `python -m export.import_marian`.

    python -m export.import_marian --hf=DIR --model_dir=runs/opus
    python -m export.import_marian --npz=DIR --model_dir=runs/opus

--hf is a directory of Hugging Face's `MarianMTModel.save_pretrained` and
`MarianTokenizer.save_pretrained`, --npz one of Marian itself, as in OPUS-MT's
archives. Pickles are never executed.

    python -m export.import_marian --model_dir=runs/opus --check=FILE

FILE is the *.test.txt that OPUS-MT publishes with a model: a test set with
Marian's translations, which are compared with those of the model directory.
With --hf or --npz the model is imported first.
"""

import pathlib
from xml.sax import saxutils

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import atomic_write
from export.lines.files import read_lines

FLAGS = flags.FLAGS
# Maximum number of differing sentences to print.
_EXAMPLES = 3
# Entities that OPUS-MT's files replace, besides those of `&<>`.
_ENTITIES = {"&apos;": "'", "&quot;": '"'}

flags.DEFINE_string("hf", None, "A directory of MarianMTModel.save_pretrained.")
flags.DEFINE_string(
    "npz",
    None,
    "A directory of Marian: decoder.yml, the files that it names, source.spm "
    "and target.spm.",
)
flags.DEFINE_string(
    "model_dir",
    None,
    "The model directory: a new one, or with --check only the one to check.",
    required=True,
)
flags.DEFINE_string(
    "check",
    None,
    "A *.test.txt of OPUS-MT, whose translations are compared with "
    "--model_dir's.",
)


def main(arguments):
    """Imports or checks a model."""
    del arguments
    path = pathlib.Path(FLAGS.model_dir)
    test_set = FLAGS.check and read_test_set(FLAGS.check)
    is_import = FLAGS.hf is not None or FLAGS.npz is not None
    if is_import or not test_set:
        _import(path)
    if test_set:
        _check(path, *test_set)
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
        raise InputError("Give either --hf or --npz, the model to import.")
    folder = pathlib.Path(FLAGS.hf or FLAGS.npz)
    command.validate_new_path(path, "--model_dir")
    # Not at the top: TensorFlow takes seconds to load.
    from export.model_directory import ModelDirectory
    from export.pretrained.hugging_face_reader import read_hugging_face
    from export.pretrained.marian_reader import read_marian

    read = read_hugging_face if FLAGS.hf else read_marian
    pretrained = read(folder)
    config = pretrained.model.config
    source_language, target_language = pretrained.languages
    with atomic_write(path) as temporary:
        temporary.mkdir()
        directory = ModelDirectory(temporary)
        directory.write_vocabulary(pretrained.vocabulary)
        directory.write_run(
            {
                "dataset": f"imported from {folder.resolve().name}",
                "source_language": source_language,
                "target_language": target_language,
            }
        )
        directory.write_weights(pretrained.model)
        directory.write_config(config)
    # Source and target may have the same note.
    for note in dict.fromkeys(pretrained.notes):
        print(f"Note: {note}.")
    print(
        f"Wrote {path}: {pretrained.model.count_params():,} parameters, "
        f"{config.num_layers} + {config.decoder_layers} layers, "
        f"{config.vocabulary_size:,} pieces.",
        flush=True,
    )


def read_test_set(path):
    """Returns sources, references and translations, three lists of str.

    The file has these three lines and a blank one for each sentence.
    """
    lines = list(read_lines(path))
    if len(lines) % 4 == 3:
        lines.append("")
    is_blank = [not line for line in lines]
    if not lines or is_blank != [False, False, False, True] * (len(lines) // 4):
        raise InputError(
            f"{path}: expected a source, its reference, its translation and a "
            "blank line for each sentence, as in OPUS-MT's *.test.txt."
        )
    return lines[0::4], lines[1::4], lines[2::4]


def unescape(text):
    """Returns a translation as OPUS-MT's files have it."""
    return saxutils.unescape(text, _ENTITIES).strip(" ")


def _check(path, sources, references, published):
    """Prints how far the model's and the published translations agree."""
    import sacrebleu

    from export.translators.translator import Translator

    translator = Translator.from_directory(path)
    count = len(sources)
    with ProgressBar("Translating", count, "sentences") as bar:
        translations = translator.translate(sources, bar.update)
    outputs = [unescape(each.text) for each in translations]
    expected = [text.strip(" ") for text in published]
    rows = [*zip(sources, expected, outputs)]
    differing = [row for row in rows if row[1] != row[2]]
    identical = count - len(differing)
    print(
        f"Identical translations: {identical / count:.2%} ({identical:,} of "
        f"{count:,}). The searches differ, so that a few differ in a right "
        "import; the scores should not."
    )
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        ours, theirs = (
            metric.corpus_score(texts, [references])
            for texts in (outputs, expected)
        )
        print(
            f"{ours.name}: imported {ours.score:.2f}, published "
            f"{theirs.score:.2f} ({ours.score - theirs.score:+.2f}), "
            f"{metric.get_signature()}"
        )
    for row in differing[:_EXAMPLES]:
        for name, text in zip(("source", "published", "imported"), row):
            print(f"  {name:<9}  {text}")


if __name__ == "__main__":
    command.run(main)
