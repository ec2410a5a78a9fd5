"""What a newcomer sees at the end: a score, examples, what to do next."""

from export.progress_bar import ProgressBar
from export.translator import Translator
from trainers.scoring import score_bleu, score_record

_SAMPLES = 5


def close(prepared, step):
    """Scores the test split, shows translations, names the next commands.

    Args:
        prepared: Prepared, its directory with the weights to use.
        step: updates the model was trained for.
    """
    directory = prepared.directory
    if prepared.test is not None:
        _score(prepared, step)
    else:
        print("The data set has no test split, so there is no BLEU score.")
    export_dir = f"exports/{directory.path.name}"
    print(
        "",
        "Next:",
        f"  tensorboard --logdir {directory.logs_path}",
        f"  python -m export.saved_model --model_dir {directory.path} "
        f"--export_dir {export_dir}",
        sep="\n",
        flush=True,
    )


def _score(prepared, step):
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
    bleu = score_bleu(texts, evaluation_set)
    directory.add_score(
        score_record(bleu, config, "test", step, prepared.dataset, len(sources))
    )
    _show_samples(sources, texts, evaluation_set.references)
    print("", f"Test: {bleu.line}", sep="\n", flush=True)


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
