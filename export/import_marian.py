"""Reads a pretrained Marian model: `python -m export.import_marian`.

    python -m export.import_marian --hf=DIR --model_dir=runs/opus
    python -m export.import_marian --npz=DIR --model_dir=runs/opus
    python -m export.import_marian --model_dir=runs/opus --check=FILE

--hf is a model in Hugging Face's format, --npz one in Marian's. Pickles are
never executed. With --check and --hf or --npz the model is imported first.
"""

import pathlib
from xml.sax import saxutils

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.lines.files import read_lines
from export.translators.search_flags import read_given_flags

FLAGS = flags.FLAGS
_MAX_PRINTED_DIFFERENCES = 3
# Entities that OPUS-MT's models generate, besides `&amp;`, `&lt;` and `&gt;`.
_ENTITIES = {"&apos;": "'", "&quot;": '"'}

flags.DEFINE_string(
    "hf", None, "Directory of save_pretrained: MarianMTModel and tokenizer."
)
flags.DEFINE_string(
    "npz",
    None,
    "A directory of Marian, as in OPUS-MT's archives: decoder.yml, the .npz "
    "and vocabularies that it names, source.spm and target.spm.",
)
flags.DEFINE_string(
    "model_dir",
    None,
    "New model directory to write; with --check alone, the one to compare.",
    required=True,
)
flags.DEFINE_integer(
    "alignment_layer",
    None,
    "Decoder layer whose attention is the alignment, from 1; -1 for the last, "
    "as in OPUS-MT's transformer-align; the model's own by default, which --hf "
    "does not have: -2, the second to last.",
)
flags.DEFINE_integer(
    "alignment_heads",
    None,
    "Number of its first heads that are averaged; 0 for all, 1 for models of "
    "Marian with guided alignment; the model's own by default, with --hf 0.",
)
flags.DEFINE_string(
    "check",
    None,
    "The *.test.txt that OPUS-MT publishes with a model: a test set with "
    "Marian's translations, to compare with the model directory's.",
)


def main(arguments: list[str]) -> None:
    """Writes a model directory, or compares its translations."""
    del arguments
    test_set = read_test_set(FLAGS.check) if FLAGS.check else None
    folders = [each for each in (FLAGS.hf, FLAGS.npz) if each is not None]
    if len(folders) > 1 or not (folders or FLAGS.check):
        raise InputError("Give either --hf or --npz, the model to import.")
    if folders:
        _import_model(pathlib.Path(folders[0]))
    if test_set is not None:
        _compare_translations(*test_set)
    # Not at the top: TensorFlow takes seconds to load.
    from export.pretrained.pretrained_model import print_next_commands

    print_next_commands(pathlib.Path(FLAGS.model_dir))


def _import_model(folder):
    path = command.new_path("model_dir")
    from export.pretrained.hugging_face_reader import read_hugging_face
    from export.pretrained.marian_npz_reader import read_marian_npz
    from export.pretrained.pretrained_model import write_pretrained

    read = read_hugging_face if FLAGS.hf else read_marian_npz
    given = read_given_flags(("alignment_layer", "alignment_heads"))
    write_pretrained(path, folder, read(folder), **given)


def read_test_set(path: str) -> tuple[list[str], list[str], list[str]]:
    """Returns sources, references and translations, three lists of str.

    The file has one line of each and a blank line for every sentence.
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


def unescape(text: str) -> str:
    """Replaces entities in a translation, as its publisher has done."""
    return saxutils.unescape(text, _ENTITIES).strip(" ")


def _compare_translations(sources, references, published):
    """Prints how far the model's and the published translations agree."""
    import sacrebleu

    from export.loading import load_translator

    translator = load_translator(FLAGS.model_dir)
    count = len(sources)
    with ProgressBar("Translating", count, "sentences") as bar:
        translations = translator.translate(sources, bar.update)
    imported = [unescape(each.text) for each in translations]
    published = [text.strip(" ") for text in published]
    rows = [*zip(sources, published, imported)]
    differing = [row for row in rows if row[1] != row[2]]
    identical = count - len(differing)
    print(
        f"Identical translations: {identical / count:.2%} ({identical:,} of "
        f"{count:,}). The searches differ, so that a few differ in a correct "
        "import; the scores should not."
    )
    for metric in (sacrebleu.BLEU(), sacrebleu.CHRF()):
        score = metric.corpus_score(imported, [references])
        published_score = metric.corpus_score(published, [references]).score
        print(
            f"{score.name}: imported {score.score:.2f}, published "
            f"{published_score:.2f} ({score.score - published_score:+.2f}), "
            f"{metric.get_signature()}"
        )
    for row in differing[:_MAX_PRINTED_DIFFERENCES]:
        for name, text in zip(("source", "published", "imported"), row):
            print(f"  {name:<9}  {text}")


if __name__ == "__main__":
    command.run(main)
