"""Prepares a corpus for training: `python -m trainers.prepare`."""

import pathlib

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.storage import (
    explain_file_errors,
    explain_read_errors,
    write_bytes,
)
from trainers.data import TRAINING_COMMANDS, dataset_flags, dataset_kind
from trainers.data.preparation import (
    MAX_STORED_TOKENS,
    make_data_source,
    prepare_corpus,
)
from trainers.data.prepared_corpus import MAX_SENTENCE_LENGTH, sha256
from trainers.data.removed_pairs import removed_pairs_page
from trainers.training import config_flags
from trainers.workers import ray_cluster

FLAGS = flags.FLAGS
dataset_flags.define_preparation_flags()
ray_cluster.define_flag()
# Shows the flags of these modules in --help.
flags.adopt_module_key_flags(dataset_flags)

flags.DEFINE_string("output_dir", None, "Folder for the prepared data.")
flags.DEFINE_string(
    "preset",
    None,
    "A named TransformerConfig, for its vocabulary_size; by default tiny, for "
    "trees parsing-small.",
)
flags.DEFINE_integer(
    "vocabulary_size",
    None,
    "Number of tokens; by default the preset's.",
    lower_bound=5,
)
flags.DEFINE_string(
    "vocabulary",
    None,
    "A SentencePiece model to use, such as the vocabulary.model of a model "
    "directory. By default one is trained on both sides of the train split, "
    "for trees on the words only.",
)
flags.DEFINE_string(
    "symbols",
    None,
    "For trees, the labels and tags to use: the symbols.json of a model "
    "directory; trees with other labels or tags are skipped. By default made "
    "from the train split.",
)
flags.DEFINE_string(
    "pair_scores",
    None,
    "File of trainers.score_pairs: only the training pairs of the best scores "
    "are used, --keep_share of them.",
)
flags.DEFINE_float(
    "keep_share",
    0.8,
    "Share of the training pairs to use with --pair_scores.",
    lower_bound=1e-6,
    upper_bound=1.0,
)
flags.DEFINE_string(
    "report",
    None,
    "HTML page to write, overwritten: how many training pairs were removed by "
    "which rule, and ten random examples of each.",
)
flags.DEFINE_integer(
    "max_tokens",
    MAX_STORED_TOKENS,
    "Pairs with more tokens on a side, the end included, are skipped and "
    "counted.",
    lower_bound=1,
    upper_bound=MAX_SENTENCE_LENGTH,
)

_DEFAULT_PRESETS = {"text": "tiny", "trees": "parsing-small"}


def main(arguments: list[str]) -> None:
    """Prepares and checks the data; prints how to train on them."""
    del arguments
    if not FLAGS.output_dir:
        raise InputError("Give --output_dir, the folder of the prepared data.")
    preset = FLAGS.preset or _DEFAULT_PRESETS[dataset_kind(FLAGS.dataset)]
    default_size = config_flags.make_config(preset, []).vocabulary_size
    size = FLAGS.vocabulary_size
    if size is None:
        size = default_size
    if FLAGS["keep_share"].present and not FLAGS.pair_scores:
        raise InputError("--keep_share needs --pair_scores; give both or none.")
    scores, choices = _read_file_of_flag("pair_scores"), {}
    if scores is not None:
        choices = {
            "pair_scores": sha256(scores),
            "keep_share": FLAGS.keep_share,
        }
    corpus = dataset_flags.corpus()
    prepared = prepare_corpus(
        FLAGS.output_dir,
        corpus,
        make_data_source(
            corpus,
            size,
            FLAGS.max_tokens,
            **dataset_flags.preparation_choices(corpus),
            **choices,
        ),
        workers=_workers(),
        vocabulary=_read_file_of_flag("vocabulary"),
        symbols=_read_symbols(corpus.kind),
        max_unknown=FLAGS.max_unknown,
        pair_scores=FLAGS.pair_scores and pathlib.Path(FLAGS.pair_scores),
    )
    prepared.validate_checksums()
    prepared.manifest.print_overlaps()
    for name, split in prepared.manifest.splits.items():
        print(
            f"{name}: {split.num_pairs:,} pairs, {split.source.num_tokens:,} "
            f"source and {split.target.num_tokens:,} target tokens, "
            f"{split.num_too_long:,} pairs of more than "
            f"{prepared.manifest.source.max_tokens:,} skipped.",
            flush=True,
        )
        removed = split.cleaning
        if removed.total:
            print(
                f"{name}: removed {removed.duplicate:,} duplicates, "
                f"{removed.language:,} pairs in other languages, "
                f"{removed.ratio:,} pairs of unequal lengths, "
                f"{removed.score:,} of low scores"
                + "".join(
                    f", {count:,} by {rule}"
                    for rule, count in sorted(removed.filters.items())
                )
                + ".",
                flush=True,
            )
    if FLAGS.report:
        _write_report(corpus.name, prepared.manifest.splits["train"])
    next_flags = [f"--prepared_dir={FLAGS.output_dir}", f"--preset={preset}"]
    if size != default_size:
        next_flags.append(f"--set=vocabulary_size={size}")
    trainer = TRAINING_COMMANDS[prepared.manifest.kind]
    command.print_next(command.command_line(trainer, *next_flags))


def _write_report(name, split):
    page = removed_pairs_page(name, split.num_read, split.cleaning)
    with explain_file_errors(FLAGS.report):
        write_bytes(pathlib.Path(FLAGS.report), page.encode("utf-8"))
    print(f"Wrote {FLAGS.report}.", flush=True)


def _workers():
    if FLAGS.ray is None:
        return dataset_flags.thread_map()
    if FLAGS["workers"].present:
        raise InputError(
            "--workers is for this machine alone, not for --ray; omit it."
        )
    return ray_cluster.task_map(FLAGS.ray)


def _read_symbols(kind):
    if FLAGS.symbols and kind != "trees":
        raise InputError("--symbols is for trees, not for text; omit it.")
    content = _read_file_of_flag("symbols")
    if content is None:
        return None
    # nltk takes seconds to import.
    from export.parsing.linearization import SymbolVocabulary

    try:
        return SymbolVocabulary.from_json(content.decode())
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"--symbols={FLAGS.symbols} cannot be used ({error}); give the "
            "symbols.json of a model directory of trainers.parsing."
        ) from error


def _read_file_of_flag(name):
    """Returns the bytes of the file that a flag names; None if unset."""
    path = FLAGS[name].value
    if not path:
        return None
    with explain_read_errors(path):
        return pathlib.Path(path).read_bytes()


if __name__ == "__main__":
    command.run(main)
