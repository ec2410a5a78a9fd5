"""Parallel corpora by name, and prepared data: a corpus as ids in shards.

`open_corpus` finds a corpus, `preparation` tokenizes it into shards,
`prepared_corpus` opens them. It imports `batches`.
"""

import re

from export.common.errors import InputError
from trainers.data.corpus import Corpus, EvaluationSet
from trainers.data.tatoeba import NAME as TATOEBA
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus

__all__ = ["Corpus", "EvaluationSet", "dataset_kind", "open_corpus"]


def dataset_kind(dataset: str) -> str:
    """Returns the kind of a corpus of this name: "text" or "trees"."""
    return "trees" if dataset.startswith("trees:") else "text"


def open_corpus(
    dataset: str,
    source_language: str | None,
    target_language: str | None,
    data_dir: str | None = None,
    manual_dir: str | None = None,
) -> Corpus:
    """Opens a corpus by its name, in one direction.

    Args:
        dataset: "tatoeba-en-fr", "text:PREFIX" (see `text_files`),
            "trees:PREFIX" (see `trees`), or a name of TensorFlow Datasets
            such as "wmt14_translate/de-en".
        source_language: None for the default of the corpus; text files have
            none, trees English.
        target_language: None for the default of the corpus.
        data_dir: where TFDS keeps its data.
        manual_dir: folder of files for TFDS that were downloaded by hand.

    Raises:
        InputError: the name or a language is unknown, both languages are
            the same, or the data are not available.
    """
    if dataset == TATOEBA:
        return TatoebaCorpus(dataset, source_language, target_language)
    if dataset.startswith("text:"):
        return TextCorpus(dataset, source_language, target_language)
    if dataset_kind(dataset) == "trees":
        # nltk takes seconds to load, as TFDS does below.
        from trainers.data.trees import TreeCorpus

        return TreeCorpus(dataset, source_language, target_language)
    # TFDS names are in snake case, then /configuration and :version.
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
