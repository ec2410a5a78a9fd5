"""Parallel corpora, and preparation of their token ids on disk.

`open_corpus` opens a corpus by name, `preparation` tokenizes it into shards,
`prepared_corpus` opens the result. Imports `trainers.batches`.
"""

import os
import re

from export.common.errors import InputError
from trainers.data.corpus import Corpus
from trainers.data.mixture import MixtureCorpus
from trainers.data.pair_files.pair_corpus import KINDS, PairCorpus
from trainers.data.tatoeba import NAME as TATOEBA
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus

# The command that trains on each kind of corpus.
TRAINING_COMMANDS = {"text": "trainers.wmt", "trees": "trainers.parsing"}


def dataset_kind(dataset: str) -> str:
    """Returns the kind of a dataset, "text" or "trees", from its name."""
    return "trees" if dataset.startswith("trees:") else "text"


def validate_kind(name: str, kind: str, expected: str) -> None:
    """Raises InputError unless a corpus is of the expected kind."""
    if kind != expected:
        raise InputError(
            f"{name} holds {kind}, but {expected} was expected; train on it "
            f"with python -m {TRAINING_COMMANDS[kind]}, or give other data."
        )


def open_corpus(
    dataset: str,
    source_language: str | None,
    target_language: str | None,
    data_dir: str | os.PathLike | None = None,
    manual_dir: str | os.PathLike | None = None,
) -> Corpus:
    """Opens a corpus by name, for one translation direction.

    `dataset` is "tatoeba-en-fr", "text:PREFIX" (see `text_files`), "tmx:FILE",
    "tsv:FILE", "jsonl:FILE", "parquet:FILE" or "hf:NAME" (see `pair_corpus`),
    "mixture:FILE" (see `mixture`), "trees:PREFIX" (see `treebank`), or a
    TensorFlow Datasets name such as "wmt14_translate/de-en". A language of None
    means the default of the corpus; files have no default, and a mixture
    takes none. `data_dir` and `manual_dir` are for TFDS: its data, and files
    that were downloaded by hand.
    """
    if dataset.startswith("mixture:"):
        if source_language or target_language:
            raise InputError(
                f"The file of {dataset} names the languages; omit "
                "--source_language and --target_language."
            )
        return MixtureCorpus(
            dataset,
            lambda name, source, target: open_corpus(
                name, source, target, data_dir, manual_dir
            ),
        )
    if dataset == TATOEBA:
        return TatoebaCorpus(dataset, source_language, target_language)
    if dataset.startswith("text:"):
        return TextCorpus(dataset, source_language, target_language)
    if dataset.partition(":")[0] in KINDS:
        return PairCorpus(dataset, source_language, target_language)
    if dataset_kind(dataset) == "trees":
        # nltk and TFDS take seconds to import.
        from trainers.data.treebank import TreeCorpus

        return TreeCorpus(dataset, source_language, target_language)
    # TFDS names are snake_case[/config][:version].
    if not re.fullmatch(r"\w+([/:][\w.+\-]+)*", dataset):
        raise InputError(
            f"Unknown data set {dataset!r}; expected {TATOEBA}, text:PREFIX, "
            "tmx:FILE, tsv:FILE, jsonl:FILE, parquet:FILE, hf:NAME, "
            "mixture:FILE, trees:PREFIX, or a name of TensorFlow Datasets "
            "such as wmt14_translate/de-en."
        )
    from trainers.data.tfds_corpus import TfdsCorpus

    return TfdsCorpus(
        dataset, source_language, target_language, data_dir, manual_dir
    )
