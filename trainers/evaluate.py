"""Scores a model on a split: `python -m trainers.evaluate --model_dir=M`.

M is a model directory, an exported version, or the folder of its versions. The
data are those that the model directory was trained on; an export does not name
its own, so give --dataset and both languages.
Prints sacreBLEU with its signature and a 95 % interval, chrF, the paper's
compound-split BLEU, and the un-smoothed perplexity of the references; of a
parser EVALB's labelled F1, precision, recall and more, and with
--unconstrained how many answers the grammar saves from being broken. Of a
model directory they are kept in its scores.json, with beam, penalty, step,
data, command, hardware and date; the same evaluation again takes the place of
the earlier entry.
"""

import dataclasses
import itertools
import pathlib

from absl import flags

from export import command
from export.errors import InputError
from export.files.atomic import written_whole
from export.lines.files import join_lines, read_references
from export.progress_bar import ProgressBar
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from export.translators.text_ids import HIGHEST_ALPHA, MOST_BEAMS
from trainers import dataset_flags, provenance
from trainers.corpora import kind_of
from trainers.prepared.manifest import refuse_other_kind
from trainers.scores import bleu_tokenizers
from trainers.scores.evaluation import evaluate, measure_perplexity

FLAGS = flags.FLAGS
# Or --help would not show them.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_string(
    "model_dir", None, "Model directory or exported version.", required=True
)
flags.DEFINE_string("split", "test", "Which split: test, dev or train.")
flags.DEFINE_boolean(
    "tokenized",
    False,
    "The text is tokenised already: score it as it stands; the same as "
    "--tokenize=none.",
)
flags.DEFINE_multi_string(
    "references",
    [],
    "File of right translations, a line for each source of the split, in the "
    "place of its own; repeatable for several. A blank line is none.",
)
# None is what the model's config says.
flags.DEFINE_integer(
    "beam_size", None, "Beams.", lower_bound=1, upper_bound=MOST_BEAMS
)
flags.DEFINE_float(
    "alpha",
    None,
    "Exponent of the length penalty.",
    lower_bound=0.0,
    upper_bound=HIGHEST_ALPHA,
)
command.require_finite("alpha")
flags.DEFINE_integer(
    "limit", None, "Score only so many lines, the first.", lower_bound=1
)
flags.DEFINE_string(
    "output", None, "File for the translations, a line for each source."
)
flags.DEFINE_boolean(
    "unconstrained",
    False,
    "Of a parser: search without its grammar as well, and say how many answers "
    "would be no tree over exactly the words.",
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted.",
    lower_bound=1,
)


def main(arguments):
    """Translates, scores, and keeps the scores."""
    del arguments
    if FLAGS.output and pathlib.Path(FLAGS.output).is_dir():
        raise InputError(
            f"--output={FLAGS.output} is a folder; give the name of a file."
        )
    is_model = pathlib.Path(FLAGS.model_dir, "config.json").exists()
    search = {
        name: FLAGS[name].value
        for name in ("beam_size", "alpha")
        if FLAGS[name].value is not None
    }
    if is_model and pathlib.Path(FLAGS.model_dir, "symbols.json").exists():
        _evaluate_parser(search)
        return
    translator = load_translator([FLAGS.model_dir], FLAGS.batch_tokens, search)
    if FLAGS.unconstrained:
        raise InputError(
            f"--unconstrained is of parsers, and {FLAGS.model_dir} is none; "
            "leave it out."
        )
    if is_model:
        _evaluate_model(translator, search)
    elif FLAGS["dataset"].present:
        _evaluate_export(translator)
    else:
        raise InputError(
            f"{FLAGS.model_dir} is an export, which does not name its data: "
            "give --dataset, --source_language and --target_language."
        )


def _evaluate_model(translator, search):
    # Not above: an export's session wants a process without TensorFlow.
    from export.model_directory import ModelDirectory
    from trainers.scores.score_records import save_scores

    directory = ModelDirectory(FLAGS.model_dir)
    corpus = _corpus(directory, "text")
    evaluation = _evaluate(
        translator, corpus.target_language, corpus.evaluation_set(FLAGS.split)
    )
    save_scores(
        directory,
        translator.model,
        evaluation.record(),
        directory.read_config().replace(**search),
        {
            "dataset": corpus.name,
            "source_language": corpus.source_language,
            "target_language": corpus.target_language,
            "split": FLAGS.split,
        },
        provenance.describe_run("trainers.evaluate"),
    )
    print(*evaluation.lines, f"Kept in {directory.scores_path}.", sep="\n")


def _evaluate_parser(search):
    # Not above: a translator needs none of it.
    from export.model_directory import ModelDirectory
    from trainers.scores.parser_scores import score_parser

    for name in ("references", "tokenize", "tokenized"):
        if FLAGS[name].present:
            raise InputError(
                f"--{name} is of translations, and {FLAGS.model_dir} is a "
                "parser; leave it out."
            )
    directory = ModelDirectory(FLAGS.model_dir)
    corpus = _corpus(directory, "trees")
    scored = score_parser(
        directory,
        list(itertools.islice(corpus.trees(FLAGS.split), FLAGS.limit)),
        {"dataset": corpus.name, "split": FLAGS.split},
        provenance.describe_run("trainers.evaluate"),
        search,
        FLAGS.batch_tokens,
        FLAGS.unconstrained,
    )
    _write_output(scored.trees)
    print(*scored.lines, f"Kept in {directory.scores_path}.", sep="\n")


def _corpus(directory, kind):
    """Opens the data of a model directory, or those asked for."""
    trained_on = directory.read_run()
    named = FLAGS["dataset"].present
    # By its name alone: a model's languages are none of the other kind's.
    usual = trained_on.get("dataset", FLAGS.dataset)
    _refuse_other_kind(FLAGS.dataset if named else usual, kind)
    return dataset_flags.corpus(trained_on)


def _refuse_other_kind(dataset, kind):
    refuse_other_kind(dataset, kind_of(dataset), kind)


def _evaluate_export(translator):
    _refuse_other_kind(FLAGS.dataset, "text")
    evaluation = _evaluate(
        translator, *dataset_flags.evaluation_set_read_apart(FLAGS.split)
    )
    print(
        *evaluation.lines,
        f"Not kept: {FLAGS.model_dir} is an export; give the model directory "
        "to have its scores.json say how the score was made.",
        sep="\n",
    )


def _evaluate(translator, target_language, evaluation_set):
    tokenize = bleu_tokenizers.choose(target_language, _asked_tokenizer())
    evaluation_set = _asked_for(evaluation_set)
    texts = _translate(translator, list(evaluation_set.sources))
    return evaluate(
        texts,
        evaluation_set,
        tokenize,
        measure_perplexity(translator, evaluation_set),
    )


def _asked_tokenizer():
    if not FLAGS.tokenized:
        return FLAGS.tokenize
    if FLAGS.tokenize not in (None, "none"):
        raise InputError(
            "--tokenized says --tokenize=none, and "
            f"--tokenize={FLAGS.tokenize} another; leave out one of them."
        )
    return "none"


def _asked_for(whole):
    if FLAGS.references:
        whole = dataclasses.replace(whole, references=_references(whole))
    whole = whole.only(range(len(whole.sources))[: FLAGS.limit])
    if not whole.scored:
        raise InputError(
            f"None of the first {len(whole.sources):,} lines of split "
            f"{FLAGS.split} has text on both sides; raise --limit."
        )
    return whole


def _references(whole):
    """Returns the lines of --references, for each source those with text."""
    files = read_references(FLAGS.references, len(whole.sources))
    references = tuple(
        tuple(line.strip() for line in lines if line and line.strip())
        for lines in zip(*files)
    )
    for number, (source, there) in enumerate(zip(whole.sources, references), 1):
        if source and not there:
            raise InputError(
                f"Line {number} of --references is blank in "
                f"{' and in '.join(FLAGS.references)}, but its source is not; "
                "give it a translation."
            )
    return references


def _translate(translator, sources):
    print(
        f"Translating {len(sources):,} sentences, beam {translator.beam_size}.",
        flush=True,
    )
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        found = translator.translate(sources, bar.update)
    texts = [translation.text for translation in found]
    _write_output(texts)
    return texts


def _write_output(texts):
    if FLAGS.output:
        with written_whole(FLAGS.output) as temporary:
            temporary.write_text(
                "".join(f"{join_lines(text)}\n" for text in texts),
                encoding="utf-8",
            )


if __name__ == "__main__":
    command.run(main)
