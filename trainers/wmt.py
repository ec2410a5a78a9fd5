"""Trains a translation model: `python -m trainers.wmt`."""

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers.data import dataset_flags
from trainers.scores import bleu_tokenizers, score_records
from trainers.training import (
    config_flags,
    initial_weights,
    launch,
    training_inputs,
    training_options,
)

FLAGS = flags.FLAGS
# Otherwise --help would not show them.
for module in (dataset_flags, training_options, launch, initial_weights):
    flags.adopt_module_key_flags(module)


class Translation(launch.Task):
    """One vocabulary for both languages, scored by BLEU."""

    command = "trainers.wmt"
    kind = "text"

    def check(self, config):
        """As `Task.check`."""
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
        """Returns the config; a parser's directory is refused."""
        if directory.symbols_path.exists():
            raise InputError(
                f"{directory.path} holds a parser, not a translation model; "
                "use trainers.parsing, or another folder."
            )
        return config

    def score(self, inputs, options, run_info):
        """Saves BLEU of the test split."""
        score_records.score_test_split(inputs, options.tokenize, run_info)

    def print_next_steps(self, inputs):
        """As `Task.print_next_steps`."""
        score_records.print_next_steps(inputs.directory)


def main(arguments):
    """Trains, scores and prints what to do next."""
    del arguments
    launch.launch(Translation())


if __name__ == "__main__":
    command.run(main)
