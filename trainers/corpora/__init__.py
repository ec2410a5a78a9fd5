"""Parallel corpora by name: the embedded one, text files, trees, and TFDS.

`open_corpus` is the way in; `Corpus` and `EvaluationSet` are what it gives.
This room imports no other.
"""

import re

from export.errors import InputError
from trainers.corpora.corpus import Corpus, EvaluationSet
from trainers.corpora.tatoeba import NAME as TATOEBA
from trainers.corpora.tatoeba import TatoebaCorpus
from trainers.corpora.text_files import TextCorpus

__all__ = ["Corpus", "EvaluationSet", "dataset_kind", "open_corpus"]


def dataset_kind(dataset: str) -> str:
    """Returns what a corpus of this name would hold: "text" or "trees"."""
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
        dataset: "tatoeba-en-fr" (the embedded default, from English unless
            told otherwise), "text:PREFIX" (see `text_files`),
            "trees:PREFIX" (see `trees`), or a name of TensorFlow Datasets
            such as "wmt14_translate/de-en".
        source_language: language to translate from, or None for the usual
            one; text files have no usual one, sentences with trees are
            English.
        target_language: language to translate into, or None for the usual
            one.
        data_dir: where TFDS keeps its data; no other corpus looks at it.
        manual_dir: where files for TFDS lie that were fetched by hand.

    Raises:
        InputError: the name or a language is unknown, both languages are
            the same, or the data cannot be had; it lists what is possible.
    """
    if dataset == TATOEBA:
        return TatoebaCorpus(dataset, source_language, target_language)
    if dataset.startswith("text:"):
        return TextCorpus(dataset, source_language, target_language)
    if dataset_kind(dataset) == "trees":
        # nltk takes seconds to load, as TFDS does below.
        from trainers.corpora.trees import TreeCorpus

        return TreeCorpus(dataset, source_language, target_language)
    # TFDS names are in snake case, then /configuration and :version.
    if not re.fullmatch(r"\w+([/:][\w.+\-]+)*", dataset):
        raise InputError(
            f"Unknown data set {dataset!r}; possible are {TATOEBA}, "
            "text:PREFIX (files PREFIX.train.en and so on), trees:PREFIX "
            "(files PREFIX.train.ptb and so on), and names of TensorFlow "
            "Datasets such as wmt14_translate/de-en."
        )
    from trainers.corpora.tfds_corpus import TfdsCorpus

    return TfdsCorpus(
        dataset, source_language, target_language, data_dir, manual_dir
    )
