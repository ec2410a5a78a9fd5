"""Trains a translation model: `python -m trainers.wmt`."""

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers.data import dataset_flags
from trainers.scores import bleu_tokenizers, score_records
from trainers.training import (
    config_flags,
    launch,
    training_inputs,
    training_options,
)

FLAGS = flags.FLAGS
# Otherwise --help would not show them.
for module in (dataset_flags, training_options, launch):
    flags.adopt_module_key_flags(module)


class Translation(launch.Task):
    """Translates with one vocabulary for both languages."""

    command = "trainers.wmt"
    kind = "text"

    def validate_flags(self, config):
        """Rejects settings for parsers."""
        if not (FLAGS.init_from or FLAGS.init_layers_from):
            config_flags.validate_translator_config(config)
        training_options.validate_unused_flags(["dev_f1_sentences"], "parsers")

    def finalize_options(self, options, directory, source):
        """Chooses sacreBLEU's tokenizer."""
        language = source.target_language
        if FLAGS.strategy == "multiworker" and options.dev_bleu_sentences:
            bleu_tokenizers.require_explicit_tokenizer(
                language, options.tokenize
            )
        return training_inputs.choose_tokenizer(options, directory, language)

    def config_from_directory(self, config, directory):
        """Returns the config; raises InputError for a parser's directory."""
        if directory.symbols_path.exists():
            raise InputError(
                f"{directory.path} holds a parser, not a translation model; "
                "use trainers.parsing, or another folder."
            )
        return config

    def score(self, inputs, options, run_info):
        """Scores the test split with BLEU."""
        score_records.score_test_split(inputs, options.tokenize, run_info)

    def print_next_steps(self, inputs):
        """Prints commands to run next."""
        score_records.print_next_steps(inputs.directory)


def main(arguments):
    """Trains, scores and prints commands to run next."""
    del arguments
    launch.launch(Translation())


if __name__ == "__main__":
    command.run(main)
