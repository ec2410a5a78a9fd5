"""Prepares a corpus for training: `python -m trainers.prepare`."""

import pathlib

from absl import flags

from export import command
from export.errors import InputError
from trainers import dataset_flags, settings
from trainers.prepared import preparation_flags
from trainers.prepared.manifest import training_command
from trainers.prepared.shards import MAX_SENTENCE_LENGTH
from trainers.prepared.writing import MAX_STORED_TOKENS, prepare_corpus

FLAGS = flags.FLAGS
# Or --help would not show them.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(preparation_flags)

flags.DEFINE_string("output_dir", None, "Where the prepared data go.")
flags.DEFINE_string(
    "preset",
    None,
    "A named TransformerConfig, for its vocabulary_size; tiny by default, of "
    "trees parsing-small.",
)
flags.DEFINE_integer(
    "vocabulary_size", None, "Pieces; the preset's own by default."
)
flags.DEFINE_string(
    "vocabulary",
    None,
    "A SentencePiece model to use, such as the vocabulary.model of a model "
    "directory; without one it is trained on both sides of the train split, "
    "of trees on the words alone.",
)
flags.DEFINE_string(
    "symbols",
    None,
    "Of trees, the labels and tags to use: the symbols.json of a model "
    "directory. Trees with others are left out. Default: those of the train "
    "split.",
)
flags.DEFINE_integer(
    "max_tokens",
    MAX_STORED_TOKENS,
    "Pairs with a side of more pieces than this, the end counted, are left "
    "out and counted.",
    lower_bound=1,
    upper_bound=MAX_SENTENCE_LENGTH,
)


_PRESETS = {"text": "tiny", "trees": "parsing-small"}


def main(arguments):
    """Prepares, checks, and says how to train with it."""
    del arguments
    if not FLAGS.output_dir:
        raise InputError("Give --output_dir, the folder of the prepared data.")
    if FLAGS.preset:
        # A wrong name is said before any data are unpacked.
        settings.make_config(FLAGS.preset, [])
    corpus = dataset_flags.corpus()
    preset = FLAGS.preset or _PRESETS[corpus.kind]
    usual = settings.make_config(preset, []).vocabulary_size
    size = FLAGS.vocabulary_size
    if size is None:
        size = usual
    prepared = prepare_corpus(
        FLAGS.output_dir,
        corpus,
        size,
        FLAGS.max_tokens,
        dataset_flags.workers(),
        _given_vocabulary(),
        _given_symbols(corpus.kind),
        FLAGS.normalization,
        FLAGS.max_unknown,
    )
    prepared.check()
    describe(prepared)
    flags_of_next = [
        f"--prepared_dir={FLAGS.output_dir}",
        f"--preset={preset}",
    ]
    if size != usual:
        flags_of_next.append(f"--set=vocabulary_size={size}")
    trainer = training_command(prepared.manifest.kind)
    command.print_next(command.command_line(trainer, *flags_of_next))


def describe(prepared):
    """Prints what each split of a PreparedCorpus holds."""
    for name, split in prepared.manifest.splits.items():
        print(
            f"{name}: {split.pairs:,} pairs, {split.source_tokens:,} source "
            f"and {split.target_tokens:,} target pieces, {split.dropped:,} "
            f"pairs of more than {prepared.manifest.source.max_tokens:,} left "
            "out.",
            flush=True,
        )


def _given_vocabulary():
    if not FLAGS.vocabulary:
        return None
    return _content("vocabulary")


def _given_symbols(kind):
    if not FLAGS.symbols:
        return None
    if kind != "trees":
        raise InputError("--symbols is of trees, not of text; leave it out.")
    # nltk takes seconds to load.
    from export.parsing.linear import Symbols

    content = _content("symbols")
    try:
        return Symbols.from_json(content.decode())
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"--symbols={FLAGS.symbols} cannot be used ({error}); give the "
            "symbols.json of a model directory of trainers.parsing."
        ) from error


def _content(name):
    path = FLAGS[name].value
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"Cannot read --{name}={path}: {error.strerror}."
        ) from error


if __name__ == "__main__":
    command.run(main)
