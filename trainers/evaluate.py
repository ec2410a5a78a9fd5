"""Scores a model on a split: `python -m trainers.evaluate --model_dir=M`.

M is a model directory, an exported version, or the folder of exported versions.
By default the data are those of the training; exports need --dataset and both
languages. Prints sacreBLEU with its signature and a 95 % interval, chrF, the
paper's compound-split BLEU, and perplexity; for a parser EVALB's labeled F1,
precision and recall. Saves the scores of a model directory in its scores.json;
repeating an evaluation replaces its entry.
"""

import dataclasses
import itertools
import pathlib
import statistics

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.storage import write_bytes
from export.lines.files import clean_line, join_lines, read_references
from export.loading import load_translator
from export.translators.batches import BATCH_TOKENS
from export.translators.search_flags import MAX_ALPHA, MAX_BEAMS, MIN_ALPHA
from trainers.augmentation.noise import SOURCE_KINDS
from trainers.data import dataset_flags
from trainers.scores import bleu_tokenizers
from trainers.scores.evaluation import (
    evaluate,
    evaluate_noise,
    measure_perplexity,
    translate_sentences,
    translators_by_direction,
)
from trainers.scores.score_records import describe_run, save_scores

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_string(
    "model_dir", None, "Model directory or exported version.", required=True
)
flags.DEFINE_string("split", "test", "Split to score: test, dev or train.")
flags.DEFINE_boolean(
    "tokenized",
    False,
    "The text is already tokenized; the same as --tokenize=none.",
)
flags.DEFINE_multi_string(
    "references",
    [],
    "File of reference translations, one line per source of the split, "
    "instead of the split's own; repeatable. Blank lines are ignored.",
)
# None for the value of the model's config.
flags.DEFINE_integer(
    "beam_size", None, "Beams.", lower_bound=1, upper_bound=MAX_BEAMS
)
flags.DEFINE_float(
    "alpha",
    None,
    "Exponent of the length penalty.",
    lower_bound=MIN_ALPHA,
    upper_bound=MAX_ALPHA,
)
command.mark_flags_as_finite("alpha")
flags.DEFINE_list(
    "noise",
    [],
    "Score translations of the sources with these kinds of noise, too, with "
    f"commas between: {', '.join(SOURCE_KINDS)}. See docs/noise.md.",
)
flags.register_validator(
    "noise",
    lambda kinds: {*kinds} <= {*SOURCE_KINDS},
    f"Expected kinds of {', '.join(SOURCE_KINDS)}.",
)
flags.DEFINE_integer(
    "limit", None, "Score only the first N lines.", lower_bound=1
)
flags.DEFINE_string(
    "output", None, "File for the translations, one line per source."
)
flags.DEFINE_boolean(
    "unconstrained",
    False,
    "For a parser: also search without the grammar, and count the outputs "
    "that are not trees over exactly the words.",
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source tokens in a batch, padding included.",
    lower_bound=1,
)


def main(arguments: list[str]) -> None:
    """Translates, scores, and saves the scores."""
    del arguments
    if FLAGS.output and pathlib.Path(FLAGS.output).is_dir():
        raise InputError(
            f"--output={FLAGS.output} is a folder; give the name of a file."
        )
    search = {
        name: FLAGS[name].value
        for name in ("beam_size", "alpha")
        if FLAGS[name].value is not None
    }
    path = pathlib.Path(FLAGS.model_dir)
    if not (path / "config.json").exists():
        _evaluate_export(_load_translator(search))
    elif (path / "symbols.json").exists():
        _evaluate_parser(search)
    else:
        _evaluate_model(_load_translator(search), search)


def _load_translator(search):
    """Returns the Translator for the languages of the flags."""
    translator = load_translator(
        FLAGS.model_dir, batch_tokens=FLAGS.batch_tokens, **search
    )
    if translator.languages.codes:
        has_source = "source" in translator.languages.tag_sides
        translator = translator.for_languages(
            FLAGS.source_language if has_source else None, FLAGS.target_language
        )
    if FLAGS.unconstrained:
        raise InputError(
            f"--unconstrained is for parsers, and {FLAGS.model_dir} is not a "
            "parser; omit it."
        )
    return translator


def _evaluate_model(translator, search):
    # Imported here: an export's session needs a process without TensorFlow.
    from export.model_directory import ModelDirectory

    directory = ModelDirectory(FLAGS.model_dir)
    corpus = dataset_flags.corpus("text", directory.read_run())
    config = directory.read_config().replace(**search)
    run_info = describe_run("trainers.evaluate")
    languages = corpus.source_language, corpus.target_language
    split = FLAGS.split
    if FLAGS.references:
        # Another test set.
        split += f" with {', '.join(FLAGS.references)}"
    for (source, target), record, lines in _evaluate(
        translator, languages, corpus.evaluation_set(FLAGS.split)
    ):
        data = {
            "dataset": corpus.name,
            "source_language": source,
            "target_language": target,
            "split": split,
        }
        save_scores(directory, translator.model, record, config, data, run_info)
        print(*lines, sep="\n")
    print(f"Saved in {directory.scores_path}.")


def _evaluate_parser(search):
    # Imported here as in `_evaluate_model`.
    from export.model_directory import ModelDirectory
    from trainers.scores.brackets import score_parser

    for name in ("references", "tokenize", "tokenized", "noise"):
        if FLAGS[name].present:
            raise InputError(
                f"--{name} is for translations, and {FLAGS.model_dir} is a "
                "parser; omit it."
            )
    directory = ModelDirectory(FLAGS.model_dir)
    corpus = dataset_flags.corpus("trees", directory.read_run())
    trees, lines = score_parser(
        directory,
        list(itertools.islice(corpus.trees(FLAGS.split), FLAGS.limit)),
        {"dataset": corpus.name, "split": FLAGS.split},
        describe_run("trainers.evaluate"),
        search,
        FLAGS.batch_tokens,
        FLAGS.unconstrained,
    )
    _write_output(trees)
    print(*lines, f"Saved in {directory.scores_path}.", sep="\n")


def _evaluate_export(translator):
    if not FLAGS["dataset"].present:
        raise InputError(
            f"{FLAGS.model_dir} is an export, which has no default data: give "
            "--dataset, --source_language and --target_language."
        )
    languages, evaluation_set = dataset_flags.read_evaluation_set_in_subprocess(
        FLAGS.split
    )
    for _, _, lines in _evaluate(translator, languages, evaluation_set):
        print(*lines, sep="\n")
    print(
        f"Not saved: {FLAGS.model_dir} is an export; give the model directory "
        "to save the scores in its scores.json."
    )


def _evaluate(translator, languages, evaluation_set):
    """Returns a list of (languages, record, lines); of a mixture, several."""
    tokenize = "none" if FLAGS.tokenized else FLAGS.tokenize
    if FLAGS.tokenize not in (None, tokenize):
        raise InputError(
            "--tokenized means --tokenize=none, got "
            f"--tokenize={FLAGS.tokenize} as well; omit one of them."
        )
    if FLAGS.references:
        references = _read_references(evaluation_set.sources)
        evaluation_set = dataclasses.replace(
            evaluation_set, references=references
        )
    results, output = [], []
    directions = translators_by_direction(translator, evaluation_set, languages)
    for direction, bound, part in directions:
        part = part.subset(range(len(part.sources))[: FLAGS.limit])
        if not part.scored_indices:
            raise InputError(
                f"None of the first {len(part.sources):,} lines of split "
                f"{FLAGS.split} has text on both sides; raise --limit."
            )
        texts = translate_sentences(bound, part.sources)
        output += texts
        perplexity = measure_perplexity(bound, part)
        chosen = bleu_tokenizers.choose_tokenizer(direction[1], tokenize)
        record, lines = evaluate(texts, part, chosen, perplexity)
        if FLAGS.noise:
            record["noise"], table = evaluate_noise(
                bound, part, chosen, FLAGS.noise, direction[0]
            )
            lines += table
        if part.directions:
            lines = [f"{' to '.join(direction)}:", *lines, ""]
        results.append((direction, record, lines))
    _write_output(output)
    if len(results) > 1:
        mean = statistics.fmean(record["score"] for _, record, _ in results)
        results[-1][-1].append(f"Mean BLEU: {mean:.2f}")
    return results


def _read_references(sources):
    """Returns a tuple of references for each source, without blank ones."""
    files = read_references(FLAGS.references, len(sources))
    references = []
    for number, (source, *lines) in enumerate(zip(sources, *files), 1):
        cleaned = [clean_line(line) for line in lines if line]
        references.append(tuple(filter(None, cleaned)))
        if source and not references[-1]:
            raise InputError(
                f"Line {number} of --references is blank in "
                f"{' and in '.join(FLAGS.references)}, but its source is not; "
                "give it a translation."
            )
    return tuple(references)


def _write_output(texts):
    if FLAGS.output:
        lines = "".join(f"{join_lines(text)}\n" for text in texts)
        write_bytes(FLAGS.output, lines.encode("utf-8"))


if __name__ == "__main__":
    command.run(main)
