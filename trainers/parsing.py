"""Trains a parser (section 6.3): `python -m trainers.parsing`.

Like trainers.wmt, but for constituency trees: --dataset=trees:PREFIX reads
PREFIX.train.ptb and PREFIX.dev.ptb, or .ptb.gz. The preset's vocabulary_size is
for words; the data determine the output vocabulary of brackets and tags.
"""

import dataclasses
import pathlib
import typing

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.config import TransformerConfig
from trainers.data import dataset_flags
from trainers.data.manifest import DataSource
from trainers.training import launch, training_options
from trainers.training.training_inputs import TrainingInputs
from trainers.training.training_options import TrainingOptions

if typing.TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
for module in (dataset_flags, training_options, launch):
    flags.adopt_module_key_flags(module)
FLAGS.set_default("preset", "parsing-small")

_TRANSLATION_FLAGS = (
    *("dev_bleu_sentences", "tokenize", "attention_steps", "sample_minutes"),
)


class Parsing(launch.Task):
    """Maps words to a sequence of brackets and tags."""

    command = "trainers.parsing"
    corpus_kind = "trees"

    def validate_flags(self, config: TransformerConfig) -> None:
        """Raises InputError for translation flags and shared embeddings."""
        training_options.validate_unused_flags(
            _TRANSLATION_FLAGS, "translations"
        )
        if config.share_embeddings == "all":
            raise InputError(
                "A parser's words and brackets cannot share embeddings: add "
                "--set=share_embeddings=none."
            )

    def finalize_options(
        self,
        options: TrainingOptions,
        directory: ModelDirectory,
        source: DataSource,
    ) -> TrainingOptions:
        """Unsets the options of translation."""
        return dataclasses.replace(options, attention_steps=0, tokenize="none")

    def read_symbols(
        self, directory: ModelDirectory
    ) -> "SymbolVocabulary | None":
        """Returns the parser's symbols, or None for a new directory."""
        # nltk takes seconds to load.
        from export.parsing.parser import load_symbols

        if directory.config_path.exists() or directory.symbols_path.exists():
            return load_symbols(directory)
        return None

    def finalize_config(
        self,
        config: TransformerConfig,
        vocabulary: bytes | None,
        symbols: "SymbolVocabulary | None",
    ) -> TransformerConfig:
        """Adds the sizes of both vocabularies."""
        if symbols is None:
            return config
        changes = {
            "vocabulary_size": symbols.vocabulary_size,
            "source_vocabulary_size": config.vocabulary_size,
        }
        if config.uses_word_positions:
            # nltk takes seconds to load.
            from export.parsing.word_tokenizer import WordTokenizer

            # A directory with symbols has one.
            known: typing.Any = vocabulary
            words = WordTokenizer(known)
            changes["first_source_word_id"] = words.first_word_id
            changes["first_target_word_id"] = symbols.first_tag_id
        return config.replace(**changes)

    def score(
        self,
        inputs: TrainingInputs,
        options: TrainingOptions,
        run_info: dict[str, str],
    ) -> None:
        """Scores the test split with F1."""
        # nltk takes seconds to load.
        from export.parsing.trees import read_tree
        from trainers.scores.brackets import score_parser

        run = inputs.directory.read_run()
        # Nothing is scored without a test split.
        test: typing.Any = inputs.test
        _, lines = score_parser(
            inputs.directory,
            [read_tree(text) for (text,) in test.references],
            {"dataset": run["dataset"], "split": "test"},
            run_info,
        )
        print("", "Test:", *lines, sep="\n", flush=True)

    def next_command(self, path: pathlib.Path) -> str:
        """Returns a command that parses a sentence."""
        parse = command.command_line("export.parse", f"--model={path}")
        return f'echo "The protein binds to DNA ." | {parse}'


def main(arguments: list[str]) -> None:
    """Trains, scores and prints commands to run next."""
    del arguments
    launch.launch(Parsing())


if __name__ == "__main__":
    command.run(main)
