"""Writes a model for CTranslate2: `python -m export.ctranslate2`.

The folder is one that `ctranslate2.Translator` loads, with the vocabulary
beside the weights as `vocabulary.model`.

With --compare=FILE the sentences of FILE, one a line, are translated by the
written folder and by our own search, and what differs is printed; with
--references also the BLEU of both.
"""

import pathlib

import sacrebleu
from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.ctranslate2.ctranslate2_translator import CTranslate2Translator
from export.ctranslate2.ctranslate2_weights import (
    QUANTIZATIONS,
    SOURCE_VOCABULARY_FILE,
    VOCABULARY_FILE,
    require_ctranslate2,
    save_ctranslate2,
)
from export.lines.files import read_references, read_sentences
from export.model_directory import ModelDirectory
from export.tokenizers.vocabulary_file import split_sides
from export.translators import search_flags
from export.translators.model_translator import MAX_SOURCE_TOKENS
from export.translators.target_pieces import collect_ids
from export.translators.text_ids import truncation_limit
from export.translators.text_translator import agreement
from export.translators.translator import Translator

FLAGS = flags.FLAGS

search_flags.define_target_pieces()

flags.DEFINE_string(
    "model_dir", None, "The model directory to export.", required=True
)
flags.DEFINE_string(
    "output_dir", None, "Folder to write; a new one.", required=True
)
flags.DEFINE_enum(
    "quantization",
    "float32",
    QUANTIZATIONS,
    "How matrices are stored: int8 is a quarter of float32's size and the "
    "fastest on most processors.",
)
flags.DEFINE_string(
    "compare",
    None,
    "File of sentences, one a line, to compare CTranslate2 with our search on.",
)
flags.DEFINE_multi_string(
    "references",
    [],
    "File of right translations of --compare, one a line, for BLEU. May be "
    "repeated; a blank line in a further file is no reference.",
)


def main(arguments):
    """Exports, compares where asked to, and prints how to translate."""
    del arguments
    require_ctranslate2()
    path = pathlib.Path(FLAGS.output_dir)
    command.require_new(path, "--output_dir")
    sentences, references = _read_comparison()
    directory = ModelDirectory(FLAGS.model_dir)
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
    search = {}
    if FLAGS.target_pieces:
        search["target_pieces"] = collect_ids(
            tokenizer.target, FLAGS.target_pieces
        )
    translator = Translator(model, tokenizer, **search)
    source, target = split_sides(directory.read_vocabulary())
    save_ctranslate2(
        model,
        target,
        path,
        FLAGS.quantization,
        source_vocabulary=None if source is target else source,
        target_pieces=translator.target_pieces,
    )
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"Wrote {path} ({size / 1e6:.1f} MB, {FLAGS.quantization}).")
    if sentences:
        print(*_compare(translator, path, sentences, references), sep="\n")
    print("Translate with it in Python:")
    for line in _program(path, model.config):
        print(f"  {line}", flush=True)


def _read_comparison():
    if FLAGS.compare is None and FLAGS.references:
        raise InputError(
            "--references are of the sentences of --compare, which is "
            "missing; give both or neither."
        )
    if FLAGS.compare is None:
        return [], []
    sentences = read_sentences(FLAGS.compare)
    return sentences, read_references(FLAGS.references, len(sentences))


def _compare(translator, path, sentences, references):
    """Returns lines that say how far CTranslate2 and our search agree."""
    config = translator.model.config
    limit = truncation_limit(config, MAX_SOURCE_TOKENS)
    peer = CTranslate2Translator(path, config, limit)
    found = []
    for name, each in (("Our search", translator), ("CTranslate2", peer)):
        with ProgressBar(name, len(sentences), "sentences") as bar:
            found.append(each.translate(sentences, bar.update))
    result = agreement(*found)
    same, everywhere = result.where_identical, result.everywhere
    lines = [
        f"Compared on {result.sentences:,} sentences, beam {config.beam_size}, "
        f"alpha {config.alpha}; CTranslate2 computes in {peer.compute_type}:",
        "  identical translations  "
        f"{result.identical / result.sentences:.2%} "
        f"({result.identical:,} of {result.sentences:,})",
        f"  score difference        mean {same.mean:.1e}, largest "
        f"{same.largest:.1e} where identical",
        f"                          mean {everywhere.mean:.1e}, largest "
        f"{everywhere.largest:.1e} everywhere",
    ]
    if references:
        metric = sacrebleu.BLEU()
        ours, peers = (
            metric.corpus_score([each.text for each in texts], references).score
            for texts in found
        )
        lines += [
            f"  BLEU                    ours {ours:.2f}, CTranslate2 "
            f"{peers:.2f} ({peers - ours:+.2f})",
            f"                          {metric.get_signature()}",
        ]
    if not peer.compute_type.startswith(FLAGS.quantization):
        lines.append(
            f"CTranslate2 has no {FLAGS.quantization} on these processors; "
            f"the figures are those of {peer.compute_type}."
        )
    return [*lines, *_differences(config)]


def _differences(config):
    """Returns what makes the two searches differ besides rounding."""
    lines = []
    if FLAGS.target_pieces:
        lines.append(
            "Its softmax is over the target pieces alone, and that of our "
            "search includes an estimate of the others."
        )
    if config.stop != "finished":
        lines.append(
            "CTranslate2 ends a search with as many finished translations as "
            f"there are beams; our search has stop={config.stop}."
        )
    if config.length_penalty == "gnmt" and config.alpha:
        lines.append(
            "It ranks by log-probability / length^alpha, and our search by "
            "log-probability / ((5 + length) / 6)^alpha, as the scores above, "
            "so that some translations differ in length."
        )
    return lines


def _program(path, config):
    """Returns the lines of a program that translates as our search does."""
    source = path / SOURCE_VOCABULARY_FILE
    lines = [
        "import ctranslate2, sentencepiece",
        "target = sentencepiece.SentencePieceProcessor("
        f"{str(path / VOCABULARY_FILE)!r})",
    ]
    if source.exists():
        # It knows tags and the rules of the text, besides the pieces.
        lines += [
            "from export.tokenizers.plain import load_plain_source_tokenizer",
            f"with open({str(source)!r}, 'rb') as file:",
            "    source = load_plain_source_tokenizer(file.read())",
            "pieces = source.pieces('...')",
        ]
    else:
        lines.append("pieces = target.encode('...', out_type=str)")
    return [
        *lines,
        f"translator = ctranslate2.Translator({str(path)!r})",
        "found = translator.translate_batch(",
        f"    [pieces], beam_size={config.beam_size}, "
        f"length_penalty={config.alpha},",
        "    disable_unk=True, max_decoding_length=len(pieces) + "
        f"{config.max_output_extra})",
        "print(target.decode(found[0].hypotheses[0]))",
    ]


if __name__ == "__main__":
    command.run(main)
