"""Parallel corpora, and preparation of their token ids on disk.

`open_corpus` opens a corpus by name, `preparation` tokenizes it into shards,
`prepared_corpus` opens the result. Imports `trainers.batches`.
"""

import re

from export.common.errors import InputError
from trainers.data.corpus import Corpus, EvaluationSet
from trainers.data.tatoeba import NAME as TATOEBA
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus

__all__ = ["Corpus", "EvaluationSet", "dataset_kind", "open_corpus"]


def dataset_kind(dataset: str) -> str:
    """Returns the kind of a dataset, "text" or "trees", from its name."""
    return "trees" if dataset.startswith("trees:") else "text"


def open_corpus(
    dataset: str,
    source_language: str | None,
    target_language: str | None,
    data_dir: str | None = None,
    manual_dir: str | None = None,
) -> Corpus:
    """Opens a corpus by name, for one translation direction.

    `dataset` is "tatoeba-en-fr", "text:PREFIX" (see `text_files`),
    "trees:PREFIX" (see `trees`), or a TensorFlow Datasets name such as
    "wmt14_translate/de-en". A language of None means the default of the
    corpus; text files have no default. `data_dir` and `manual_dir` are for
    TFDS: its data, and files that were downloaded by hand. Raises InputError
    if a name is unknown, both languages are the same, or data are missing.
    """
    if dataset == TATOEBA:
        return TatoebaCorpus(dataset, source_language, target_language)
    if dataset.startswith("text:"):
        return TextCorpus(dataset, source_language, target_language)
    if dataset_kind(dataset) == "trees":
        # nltk and TFDS take seconds to import.
        from trainers.data.trees import TreeCorpus

        return TreeCorpus(dataset, source_language, target_language)
    # TFDS names are snake_case[/config][:version].
    if not re.fullmatch(r"\w+([/:][\w.+\-]+)*", dataset):
        raise InputError(
            f"Unknown data set {dataset!r}; expected {TATOEBA}, text:PREFIX "
            "(files PREFIX.train.en and so on), trees:PREFIX (files "
            "PREFIX.train.ptb and so on), or a name of TensorFlow Datasets "
            "such as wmt14_translate/de-en."
        )
    from trainers.data.tfds_corpus import TfdsCorpus

    return TfdsCorpus(
        dataset, source_language, target_language, data_dir, manual_dir
    )
