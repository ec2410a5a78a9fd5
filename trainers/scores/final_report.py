"""What a newcomer sees at the end: a score, examples, what to do next."""

import shlex

from export.progress_bar import ProgressBar
from export.translators.translator import Translator
from trainers.scores.evaluation import evaluate
from trainers.scores.records import keep_scores

_SAMPLES = 5


def score(prepared, tokenize, made):
    """Scores the test split where there is one, and shows translations.

    Args:
        prepared: Prepared, its directory with the weights to use.
        tokenize: name of sacreBLEU's tokeniser.
        made: dict of command, hardware and date.
    """
    if prepared.test is not None:
        _score(prepared, tokenize, made)
    else:
        print("The data set has no test split, so there is no BLEU score.")


def name_next(directory):
    """Names the next commands.

    Args:
        directory: ModelDirectory.
    """
    export_dir = f"exports/{directory.path.name}"
    print(
        "",
        "Next:",
        f"  tensorboard --logdir {shlex.quote(str(directory.logs_path))}",
        "  python -m export.saved_model --model_dir "
        f"{shlex.quote(str(directory.path))} "
        f"--export_dir {shlex.quote(export_dir)}",
        sep="\n",
        flush=True,
    )


def _score(prepared, tokenize, made):
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
    keep_scores(
        directory,
        translator.model,
        evaluation,
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
