"""Trains a translation model: `python -m trainers.wmt`."""

import pathlib
import statistics

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.loading import load_translator
from export.model_directory import ModelDirectory
from keras_transformer.config import TransformerConfig
from trainers.data import dataset_flags
from trainers.data.manifest import DataSource
from trainers.scores.bleu_tokenizers import (
    choose_tokenizer,
    validate_explicit_tokenizer,
)
from trainers.scores.evaluation import (
    evaluate,
    translate_sentences,
    translators_by_direction,
)
from trainers.scores.score_records import save_scores
from trainers.training import (
    config_flags,
    launch,
    training_inputs,
    training_options,
)
from trainers.training.training_inputs import TrainingInputs
from trainers.training.training_options import TrainingOptions

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
for module in (dataset_flags, training_options, launch):
    flags.adopt_module_key_flags(module)

_NUM_SAMPLES = 5


class TranslationTask(launch.Task):
    """The task of training a translation model."""

    command = "trainers.wmt"
    corpus_kind = "text"

    def validate_flags(self, config: TransformerConfig) -> None:
        """Rejects settings for parsers."""
        if not (FLAGS.init_from or FLAGS.init_layers_from):
            config_flags.validate_translator_config(config)
        training_options.validate_unused_flags(["dev_f1_sentences"], "parsers")

    def finalize_options(
        self,
        options: TrainingOptions,
        directory: ModelDirectory,
        source: DataSource,
    ) -> TrainingOptions:
        """Chooses sacreBLEU's tokenizer."""
        language = source.target_language
        if FLAGS.strategy == "multiworker" and options.dev_bleu_sentences:
            validate_explicit_tokenizer(language, options.tokenize)
        return training_inputs.resolve_tokenizer(options, directory, language)

    def read_symbols(self, directory: ModelDirectory) -> None:
        """Returns None: only parsers have symbols."""
        if directory.symbols_path.exists():
            raise InputError(
                f"{directory.path} holds a parser, not a translation model; "
                "use another folder."
            )

    def score(
        self,
        inputs: TrainingInputs,
        options: TrainingOptions,
        run_info: dict[str, str],
    ) -> None:
        """Scores the test split with BLEU, and prints translations."""
        directory = inputs.directory
        run = directory.read_run()
        translator = load_translator(directory.path)
        languages = run["source_language"], run["target_language"]
        scores, lines = [], []
        for (source, target), bound, evaluation_set in translators_by_direction(
            translator, inputs.test, languages
        ):
            tokenize = options.tokenize or choose_tokenizer(target)
            texts = translate_sentences(bound, evaluation_set.sources)
            record, (bleu, *_) = evaluate(texts, evaluation_set, tokenize)
            data = {
                "dataset": run["dataset"],
                "source_language": source,
                "target_language": target,
                "split": "test",
            }
            model, config = translator.model, inputs.config
            save_scores(directory, model, record, config, data, run_info)
            _print_samples(texts, evaluation_set)
            scores.append(record["score"])
            is_mixture = bool(evaluation_set.directions)
            name = f"Test, {source} to {target}" if is_mixture else "Test"
            lines.append(f"{name}: {bleu}")
        if len(scores) > 1:
            lines.append(f"Test, mean BLEU: {statistics.fmean(scores):.2f}")
        print("", *lines, sep="\n", flush=True)

    def next_command(self, path: pathlib.Path) -> str:
        """Returns the command that exports the model."""
        export_dir = f"--export_dir=exports/{path.name}"
        return command.command_line(
            "export.saved_model", f"--model_dir={path}", export_dir
        )


def _print_samples(texts, evaluation_set):
    # Evenly spread, so that every training prints the same sentences.
    indices = evaluation_set.scored_indices
    stride = max(len(indices) // _NUM_SAMPLES, 1)
    for index in indices[::stride][:_NUM_SAMPLES]:
        print(
            "",
            f"  source:      {evaluation_set.sources[index]}",
            f"  translation: {texts[index]}",
            f"  reference:   {' / '.join(evaluation_set.references[index])}",
            sep="\n",
        )


def main(arguments: list[str]) -> None:
    """Trains, scores and prints commands to run next."""
    del arguments
    launch.launch(TranslationTask())


if __name__ == "__main__":
    command.run(main)
