"""What a newcomer sees at the end: a score, examples, what to do next."""

import shlex

from export.progress_bar import ProgressBar
from export.translator import Translator
from trainers.evaluation import evaluate
from trainers.keep_scores import keep_scores

_SAMPLES = 5


def score(prepared, made):
    """Scores the test split where there is one, and shows translations.

    Args:
        prepared: Prepared, its directory with the weights to use.
        made: dict of command, hardware and date.
    """
    if prepared.test is not None:
        _score(prepared, made)
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


def _score(prepared, made):
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
    evaluation = evaluate(texts, evaluation_set)
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
    _show_samples(sources, texts, evaluation_set.references)
    print("", f"Test: {evaluation.bleu.line}", sep="\n", flush=True)


def _show_samples(sources, texts, references):
    # Evenly spread, so that they are the same at every training.
    stride = max(len(sources) // _SAMPLES, 1)
    for number in range(0, len(sources), stride)[:_SAMPLES]:
        print(
            "",
            f"  source:      {sources[number]}",
            f"  translation: {texts[number]}",
            f"  reference:   {' / '.join(references[number])}",
            sep="\n",
        )
