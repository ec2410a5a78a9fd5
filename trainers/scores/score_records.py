"""Entries of scores.json, and the scores at the end of a training."""

from export.common import command
from export.translators.translator import Translator
from trainers.scores.evaluation import evaluate, translate_sentences
from trainers.scores.provenance import TrainingLog

# Entries with equal values in these fields belong to the same evaluation.
_IDENTITY = (
    *("metric", "signature", "dataset", "split", "step", "weights"),
    *("sentences", "references", "reference_length"),
    *("beam_size", "alpha", "length_penalty"),
)
_SAMPLES = 5


def add_record(records, record):
    """Adds a record to a list, or replaces that of the same evaluation.

    If the score is the same, other measurements such as perplexity are kept.
    """
    for index, earlier in enumerate(records):
        if all(earlier.get(name) == record.get(name) for name in _IDENTITY):
            if earlier["score"] == record["score"]:
                record = {**earlier, **record}
            return [*records[:index], record, *records[index + 1 :]]
    return [*records, record]


def save_scores(directory, model, scores, config, data, provenance):
    """Adds an entry to scores.json, or replaces that of the same evaluation.

    `model` is the Transformer of the ModelDirectory; `scores` are a dict of
    metric, score, signature and so on, `config` is the TransformerConfig of the
    search, `data` a dict of dataset, source_language, target_language and
    split, and `provenance` a dict of command, hardware and date.
    """
    log = TrainingLog(directory)
    record = {
        **scores,
        **data,
        "beam_size": config.beam_size,
        "alpha": config.alpha,
        "length_penalty": config.length_penalty,
        "step": log.weights.get("step"),
        "weights": log.weights.get("made_from"),
        "parameters": model.count_params(),
        "training": log.summary(),
        **provenance,
    }
    directory.write_scores(add_record(directory.read_scores(), record))


def score_test_split(prepared, tokenize, provenance):
    """Scores the test split, if there is one, and prints translations.

    `prepared` are TrainingInputs, whose directory has the weights to use;
    `tokenize` is the name of sacreBLEU's tokenizer, `provenance` a dict of
    command, hardware and date.
    """
    evaluation_set = prepared.test
    if evaluation_set is None:
        print("The data set has no test split, so there is no BLEU score.")
        return
    config, directory = prepared.config, prepared.directory
    translator = Translator.from_directory(directory.path)
    texts = translate_sentences(translator, evaluation_set.sources)
    evaluation = evaluate(texts, evaluation_set, tokenize)
    run = directory.read_run()
    data = {
        "dataset": prepared.dataset,
        "source_language": run["source_language"],
        "target_language": run["target_language"],
        "split": "test",
    }
    scores = evaluation.record()
    save_scores(directory, translator.model, scores, config, data, provenance)
    _print_samples(texts, evaluation_set)
    print("", f"Test: {evaluation.bleu.line}", sep="\n", flush=True)


def _print_samples(texts, evaluation_set):
    # Evenly spread, so that every training prints the same sentences.
    indices = evaluation_set.scored_indices
    stride = max(len(indices) // _SAMPLES, 1)
    for index in indices[::stride][:_SAMPLES]:
        print(
            "",
            f"  source:      {evaluation_set.sources[index]}",
            f"  translation: {texts[index]}",
            f"  reference:   {' / '.join(evaluation_set.references[index])}",
            sep="\n",
        )


def print_next_steps(directory):
    """Prints commands to run after a training in a ModelDirectory."""
    command.print_next(
        command.command_line("tensorboard", "--logdir", directory.logs_path),
        command.command_line(
            *("export.saved_model", "--model_dir", directory.path),
            *("--export_dir", f"exports/{directory.path.name}"),
        ),
    )
