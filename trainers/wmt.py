"""Trains a translation model: `python -m trainers.wmt`."""

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers import dataset_flags, settings
from trainers.scores import bleu_tokenizers, score_records
from trainers.training import (
    initial_weights,
    launch,
    training_inputs,
    training_options,
)

FLAGS = flags.FLAGS
# Or --help would not show them.
for module in (dataset_flags, training_options, launch, initial_weights):
    flags.adopt_module_key_flags(module)


class Translation(launch.Task):
    """One vocabulary for both languages, scored by BLEU."""

    command = "trainers.wmt"
    kind = "text"

    def check(self, config):
        """See the base class."""
        if not (FLAGS.init_from or FLAGS.init_layers_from):
            settings.validate_translator_config(config)
        training_options.validate_unused_flags(["dev_f1_sentences"], "parsers")

    def finalize_options(self, plan, directory, source):
        """See the base class."""
        language = source.target_language
        if FLAGS.strategy == "multiworker" and plan.dev_bleu_sentences:
            bleu_tokenizers.refuse_if_machines_may_differ(
                language, plan.tokenize
            )
        return training_inputs.choose_tokenizer(plan, directory, language)

    def symbols_from_directory(self, directory):
        """See the base class."""
        del directory

    def config_from_directory(self, config, directory):
        """See the base class."""
        if directory.symbols_path.exists():
            raise InputError(
                f"{directory.path} holds a parser, no translator; use "
                "trainers.parsing, or another folder."
            )
        return config

    def finalize_config(self, config, corpus):
        """See the base class."""
        del corpus
        return config

    def score(self, prepared, plan, made):
        """See the base class."""
        score_records.score_test_split(prepared, plan.tokenize, made)

    def print_next_steps(self, prepared):
        """See the base class."""
        score_records.print_next_steps(prepared.directory)


def main(arguments):
    """Trains, scores and says what to do next."""
    del arguments
    launch.launch(Translation())


if __name__ == "__main__":
    command.run(main)
