"""What is left of a score: an entry of scores.json, and what a user sees.

The latter at the end of a training: examples, and what to do next.
"""

from export import command
from export.progress_bar import ProgressBar
from export.translators.translator import Translator
from trainers.checkpoints import Checkpoints
from trainers.provenance import TrainingLog
from trainers.scores.evaluation import evaluate

# Two entries with the same of these are of the same evaluation.
_IDENTITY = (
    "metric",
    "signature",
    "dataset",
    "split",
    "sentences",
    "references",
    "reference_length",
    "beam_size",
    "alpha",
    "length_penalty",
    "step",
    "weights",
)


def add_record(records, record):
    """Adds an entry, in the place of an earlier one of the same evaluation.

    Where that has the same score, what the new one does not tell is kept
    (perplexity, say).

    Args:
        records: list of dict.
        record: dict.

    Returns:
        The new list.
    """
    for place, earlier in enumerate(records):
        if _is_same(earlier, record):
            if earlier["score"] == record["score"]:
                record = {**earlier, **record}
            return [*records[:place], record, *records[place + 1 :]]
    return [*records, record]


def _is_same(earlier, record):
    # An entry of an older version has not all of them.
    return all(earlier[n] == record.get(n) for n in _IDENTITY if n in earlier)


def save_scores(directory, model, scores, config, data, made):
    """Adds an entry, or takes the place of that of the same evaluation.

    Args:
        directory: ModelDirectory.
        model: Transformer, its model.
        scores: dict of metric, score, signature and so on.
        config: TransformerConfig it was decoded with.
        data: dict of dataset, source_language, target_language and split.
        made: dict of command, hardware and date.

    Raises:
        InputError: scores.json is damaged or cannot be written.
    """
    record = {
        **scores,
        **data,
        "beam_size": config.beam_size,
        "alpha": config.alpha,
        "length_penalty": config.length_penalty,
        **_facts(directory, model),
        **made,
    }
    directory.write_scores(add_record(directory.read_scores(), record))


def _facts(directory, model):
    log = TrainingLog(directory)
    step = log.weights.get("step")
    if step is None:
        # Trained before there was a log.
        steps = Checkpoints(directory.checkpoints_path, 1).steps()
        step = max(steps, default=None)
    return {
        "step": step,
        "weights": log.weights.get("made_from"),
        "parameters": model.count_params(),
        "training": log.summary(),
    }


_SAMPLES = 5


def score_test_split(prepared, tokenize, made):
    """Scores the test split where there is one, and shows translations.

    Args:
        prepared: Prepared, its directory with the weights to use.
        tokenize: name of sacreBLEU's tokeniser.
        made: dict of command, hardware and date.
    """
    if prepared.test is not None:
        _translate_and_score(prepared, tokenize, made)
    else:
        print("The data set has no test split, so there is no BLEU score.")


def print_next_steps(directory):
    """Names the next commands.

    Args:
        directory: ModelDirectory.
    """
    command.print_next(
        command.command_line("tensorboard", "--logdir", directory.logs_path),
        command.command_line(
            *("export.saved_model", "--model_dir", directory.path),
            *("--export_dir", f"exports/{directory.path.name}"),
        ),
    )


def _translate_and_score(prepared, tokenize, made):
    config, directory = prepared.config, prepared.directory
    evaluation_set = prepared.test
    sources = list(evaluation_set.sources)
    print(
        f"Translating {len(sources):,} test sentences, beam "
        f"{config.beam_size}.",
        flush=True,
    )
    translator = Translator.from_directory(directory.path)
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        translations = translator.translate(sources, bar.update)
    texts = [translation.text for translation in translations]
    evaluation = evaluate(texts, evaluation_set, tokenize)
    run = directory.read_run()
    save_scores(
        directory,
        translator.model,
        evaluation.record(),
        config,
        {
            "dataset": prepared.dataset,
            "source_language": run["source_language"],
            "target_language": run["target_language"],
            "split": "test",
        },
        made,
    )
    _show_samples(texts, evaluation_set)
    print("", f"Test: {evaluation.bleu.line}", sep="\n", flush=True)


def _show_samples(texts, evaluation_set):
    # Evenly spread, so that they are the same at every training.
    places = evaluation_set.scored
    stride = max(len(places) // _SAMPLES, 1)
    for place in places[::stride][:_SAMPLES]:
        print(
            "",
            f"  source:      {evaluation_set.sources[place]}",
            f"  translation: {texts[place]}",
            f"  reference:   {' / '.join(evaluation_set.references[place])}",
            sep="\n",
        )
