"""Writes a model for CTranslate2: `python -m export.ctranslate2`.

`ctranslate2.Translator` loads the folder, which has the vocabulary as
`vocabulary.model`. --argos also packs it for Argos Translate and
LibreTranslate. --compare=FILE translates the sentences of FILE with both
CTranslate2 and this package, and prints how they differ; with --references
also the BLEU of both.
"""

import importlib

import numpy as np
import sacrebleu
from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.ctranslate2.argos_package import (
    read_argos_languages,
    write_argos_package,
)
from export.ctranslate2.ctranslate2_model import (
    QUANTIZATIONS,
    SOURCE_VOCABULARY_FILE,
    VOCABULARY_FILE,
    CTranslate2Backend,
    save_ctranslate2,
)
from export.lines.files import read_references, read_sentences
from export.model_directory import ModelDirectory
from export.translators import search_flags
from export.translators.output_vocabulary_files import collect_target_pieces
from export.translators.translator import Translator
from keras_transformer.config import TransformerConfig

FLAGS = flags.FLAGS

search_flags.define_target_pieces()
search_flags.define_languages()

search_flags.define_folders()
flags.DEFINE_enum(
    "quantization",
    "float32",
    QUANTIZATIONS,
    "Type of the stored matrices: int8 has a quarter of float32's size and is "
    "the fastest on most processors.",
)
flags.DEFINE_bool(
    "argos",
    False,
    "Also write OUTPUT_DIR.argosmodel, the same model as a package for Argos "
    "Translate and LibreTranslate.",
)
flags.DEFINE_string(
    "compare", None, "File to compare translations of, one sentence per line."
)
flags.DEFINE_multi_string(
    "references",
    [],
    "File of reference translations of --compare, one per line, for BLEU. May "
    "be repeated; in the second and later files a blank line means none.",
)


def main(arguments: list[str]) -> None:
    """Writes a CTranslate2 model, and compares translations if requested."""
    del arguments
    # Before hours of comparing.
    importlib.import_module("ctranslate2")
    path = command.new_path("output_dir")
    sentences, references = _read_comparison()
    directory = ModelDirectory(FLAGS.model_dir)
    if FLAGS.argos:
        argos_path = path.with_name(f"{path.name}.argosmodel")
        command.validate_new_path(argos_path, "--output_dir")
        argos_languages = read_argos_languages(directory)
    model, tokenizer, languages = directory.load()
    languages = languages.select(FLAGS.source_language, FLAGS.target_language)
    sentences = [languages.tag(each) for each in sentences]
    example = languages.tag("...") if languages.target else "..."
    pieces = FLAGS.target_pieces
    target_ids = pieces and collect_target_pieces(tokenizer.target, pieces)
    vocabulary = directory.read_vocabulary()
    save_ctranslate2(model, vocabulary, path, FLAGS.quantization, target_ids)
    size = sum(file.stat().st_size for file in path.iterdir())
    print(f"Wrote {path} ({size / 1e6:.1f} MB, {FLAGS.quantization}).")
    if FLAGS.argos:
        write_argos_package(path, argos_languages, argos_path)
        print(f"Wrote {argos_path}; docs/decoding.md says how to install it.")
    if sentences:
        translator = Translator.from_model(
            model, tokenizer, target_pieces=target_ids
        )
        print(*_compare(translator, path, sentences, references), sep="\n")
    lines = _example_code(
        path, model.config, example, tokenizer.source.has_both_tags
    )
    print("Translate with it in Python:", *lines, sep="\n  ", flush=True)


def _read_comparison():
    if FLAGS.compare is None:
        if FLAGS.references:
            raise InputError("--references needs --compare; give both.")
        return [], []
    sentences = read_sentences(FLAGS.compare)
    return sentences, read_references(FLAGS.references, len(sentences))


def _compare(translator, path, sentences, references):
    """Returns lines on how far CTranslate2 and this package's search agree."""
    config = translator.model.config
    backend = CTranslate2Backend(path, config)
    texts, scores = _translate("keras_transformer", translator, sentences)
    ct2_texts, ct2_scores = _translate(
        "CTranslate2", Translator(backend), sentences
    )
    same = np.array(texts) == np.array(ct2_texts)
    difference = np.abs(scores - ct2_scores)[same].max(initial=0.0)
    lines = [
        f"Compared on {len(sentences):,} sentences, beam {config.beam_size}, "
        f"alpha {config.alpha}; CTranslate2 computes in "
        f"{backend.compute_type}:",
        f"  identical translations  {same.mean():.2%} ({same.sum():,} of "
        f"{len(sentences):,})",
        f"  score difference        at most {difference:.1e} where identical",
    ]
    if references:
        metric = sacrebleu.BLEU()
        bleu = metric.corpus_score(texts, references).score
        ct2_bleu = metric.corpus_score(ct2_texts, references).score
        lines += [
            f"  BLEU                    keras_transformer {bleu:.2f}, "
            f"CTranslate2 {ct2_bleu:.2f} ({ct2_bleu - bleu:+.2f})",
            f"                          {metric.get_signature()}",
        ]
    if not backend.compute_type.startswith(FLAGS.quantization):
        lines.append(
            f"CTranslate2 has no {FLAGS.quantization} on these processors; "
            f"the figures are for {backend.compute_type}."
        )
    return [*lines, "docs/decoding.md says how the two searches differ."]


def _translate(name, translator, sentences):
    """Returns the texts and scores of the translations."""
    with ProgressBar(name, len(sentences), "sentences") as bar:
        translations = translator.translate(sentences, bar.update)
    texts = [translation.text for translation in translations]
    return texts, np.array([translation.score for translation in translations])


def _example_code(path, config, text, has_both_tags):
    """Returns lines of code that translate like this package's search."""
    source, target = path / SOURCE_VOCABULARY_FILE, path / VOCABULARY_FILE
    tokenization = [f"pieces = target.encode({text!r}, out_type=str)"]
    if source.exists():
        # This tokenizer also handles tags and the normalization of the text.
        tokenization = [
            "from export.tokenizers.python_tokenizers import "
            "load_python_source_tokenizer",
            f"with open({str(source)!r}, 'rb') as file:",
            "    source = load_python_source_tokenizer(file.read())",
            f"pieces = source.tokens({text!r})",
        ]
    repetition = "".join(
        f" {name}={getattr(config, name)},"
        for name in ("no_repeat_ngram_size", "repetition_penalty")
        if getattr(config, name) != getattr(TransformerConfig, name)
    )
    inputs, min_length, output = "[pieces], ", 1, "hypotheses[0]"
    if has_both_tags:
        # The language is the first token of the source and of the hypothesis.
        inputs = "[pieces[1:]], target_prefix=[pieces[:1]], "
        min_length, output = 2, "hypotheses[0][1:]"
    return [
        "import ctranslate2, sentencepiece",
        f"target = sentencepiece.SentencePieceProcessor({str(target)!r})",
        *tokenization,
        f"translator = ctranslate2.Translator({str(path)!r})",
        "results = translator.translate_batch(",
        f"    {inputs}beam_size={config.beam_size}, "
        f"length_penalty={config.alpha}, disable_unk=True,"
        f"{repetition}",
        f"    min_decoding_length={min_length}, "
        f"max_decoding_length=len(pieces) + {config.max_extra_tokens})",
        f"print(target.decode(results[0].{output}))",
    ]


if __name__ == "__main__":
    command.run(main)
