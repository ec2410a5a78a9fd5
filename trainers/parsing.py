"""Trains a constituency parser (section 6.3): `python -m trainers.parsing`.

As trainers.wmt, on trees: --dataset=trees:PREFIX, files PREFIX.train.ptb and
PREFIX.dev.ptb, or .ptb.gz. The preset's vocabulary_size is that of the words'
pieces; what trees are said with follows from the data.
"""

import dataclasses

from absl import flags

from export.common import command
from export.common.errors import InputError
from trainers import dataset_flags
from trainers.training import initial_weights, launch, training_options

FLAGS = flags.FLAGS
# Or --help would not show them.
for module in (dataset_flags, training_options, launch, initial_weights):
    flags.adopt_module_key_flags(module)
FLAGS.set_default("preset", "parsing-small")

# Of trainers.wmt, and of no use here.
_OF_TRANSLATION = ("dev_bleu_sentences", "tokenize", "attention_steps")


class Parsing(launch.Task):
    """Words in, a line of brackets and tags out."""

    command = "trainers.parsing"
    kind = "trees"

    def check(self, config):
        """See the base class."""
        training_options.validate_unused_flags(_OF_TRANSLATION, "translations")
        if config.share_embeddings == "all":
            raise InputError(
                "A parser's words and brackets share no embeddings: add "
                "--set=share_embeddings=none, or use a preset for parsing."
            )

    def finalize_options(self, plan, directory, source):
        """See the base class."""
        del directory, source
        # Attention is shown of text on both sides.
        return dataclasses.replace(plan, attention_steps=0, tokenize="none")

    def symbols_from_directory(self, directory):
        """See the base class."""
        # nltk takes seconds to load.
        from export.parsing.parser import symbols_of

        there = (
            directory.config_path.exists() or directory.symbols_path.exists()
        )
        return symbols_of(directory) if there else None

    def config_from_directory(self, config, directory):
        """See the base class."""
        symbols = self.symbols_from_directory(directory)
        if symbols is None:
            return None
        if directory.config_path.exists():
            pieces = directory.read_config().source_pieces
            if pieces != config.vocabulary_size:
                raise InputError(
                    f"The parser in {directory.path} makes words of {pieces} "
                    f"pieces, not of {config.vocabulary_size}; use "
                    f"--set=vocabulary_size={pieces}."
                )
        return self._with_symbols(config, symbols, directory.read_vocabulary())

    def finalize_config(self, config, corpus):
        """See the base class."""
        return self._with_symbols(config, corpus.symbols, corpus.vocabulary)

    def _with_symbols(self, config, symbols, vocabulary):
        # It loads TensorFlow Text.
        from export.parsing.words import WordTokenizer

        changes = {
            "vocabulary_size": symbols.vocabulary_size,
            "source_vocabulary_size": config.vocabulary_size,
        }
        if config.counts_words:
            words = WordTokenizer(vocabulary)
            changes["source_words_from"] = words.words_from
            changes["target_words_from"] = symbols.tags_from
        return config.replace(**changes)

    def score(self, prepared, plan, made):
        """See the base class."""
        del plan
        if prepared.test is None:
            print(
                "The data set has no test split, so no F1 is measured at the "
                "end; dev does not take its place."
            )
            return
        # nltk takes seconds to load.
        from export.parsing.trees import read_tree
        from trainers.scores.parser_scores import score_parser

        scored = score_parser(
            prepared.directory,
            [read_tree(text) for (text,) in prepared.test.references],
            {"dataset": prepared.dataset, "split": "test"},
            made,
        )
        print("", "Test:", *scored.lines, sep="\n", flush=True)

    def print_next_steps(self, prepared):
        """See the base class."""
        directory = prepared.directory
        lines = [
            command.command_line("tensorboard", "--logdir", directory.logs_path)
        ]
        if prepared.test is None and prepared.dev is not None:
            lines.append(
                command.command_line(
                    *("trainers.evaluate", f"--model_dir={directory.path}"),
                    "--split=dev",
                )
            )
        parse = command.command_line(
            "export.parse", f"--model={directory.path}"
        )
        command.print_next(
            *lines, f'echo "The protein binds to DNA ." | {parse}'
        )


def main(arguments):
    """Trains and says what to do next."""
    del arguments
    launch.launch(Parsing())


if __name__ == "__main__":
    command.run(main)
