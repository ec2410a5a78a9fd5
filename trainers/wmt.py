"""Trains a translation model: `python -m trainers.wmt`."""

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers import dataset_flags, settings
from trainers.scores import bleu_tokenizers, score_records
from trainers.training import initial_weights, launch, run
from trainers.training import plan as training_plan

FLAGS = flags.FLAGS
# Or --help would not show them.
for module in (dataset_flags, training_plan, launch, initial_weights):
    flags.adopt_module_key_flags(module)


class Translation(launch.Task):
    """One vocabulary for both languages, scored by BLEU."""

    command = "trainers.wmt"
    kind = "text"

    def check(self, config):
        """See the base class."""
        if not (FLAGS.init_from or FLAGS.init_layers_from):
            settings.refuse_parser_fields(config)
        training_plan.refuse_flags(["dev_f1_sentences"], "parsers")

    def settled_plan(self, plan, directory, source):
        """See the base class."""
        language = source.target_language
        if FLAGS.strategy == "multiworker" and plan.dev_bleu_sentences:
            bleu_tokenizers.require_explicit_tokenizer(language, plan.tokenize)
        return run.with_tokenizer(plan, directory, language)

    def known_symbols(self, directory):
        """See the base class."""
        del directory

    def known_config(self, config, directory):
        """See the base class."""
        if directory.symbols_path.exists():
            raise InputError(
                f"{directory.path} holds a parser, no translator; use "
                "trainers.parsing, or another folder."
            )
        return config

    def settled_config(self, config, corpus):
        """See the base class."""
        del corpus
        return config

    def score(self, prepared, plan, made):
        """See the base class."""
        score_records.score_test_split(prepared, plan.tokenize, made)

    def name_next(self, prepared):
        """See the base class."""
        score_records.print_next_steps(prepared.directory)


def main(arguments):
    """Trains, scores and says what to do next."""
    del arguments
    launch.launch(Translation())


if __name__ == "__main__":
    command.run(main)
