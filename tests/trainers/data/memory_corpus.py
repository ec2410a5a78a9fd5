"""A corpus in memory, and preparation of its data."""

import contextlib
import functools
import pathlib

import numpy as np
import pytest

from export.common.errors import InputError
from export.common.parallel import map_in_threads
from export.tokenizers import load_tokenizer
from tests.trainers import cipher
from trainers.batches.token_pairs import decode_pairs
from trainers.data.corpus import Corpus
from trainers.data.preparation import make_data_source, prepare_corpus
from trainers.data.vocabulary import train_vocabulary

SIZE = 64


class MemoryCorpus(Corpus):
    """A corpus of rows in memory.

    `splits` maps a name to a list of (source, references), or to a function
    that returns an iterator of them.
    """

    def __init__(self, splits, name="memory", fingerprint="f"):
        super().__init__(name, cipher.SOURCE, cipher.TARGET)
        self._splits = splits
        self._fingerprint = fingerprint

    def fingerprint(self):
        return self._fingerprint

    def _rows(self, split):
        rows = self._splits[split]
        yield from rows() if callable(rows) else rows


def rows(count, seed):
    """Made-up sentences with one reference each."""
    pairs = cipher.sentences(count, seed)
    return [(source, (target,)) for source, target in pairs]


def splits(**changes):
    """40 pairs to train on, 9 of dev, 4 of test with two references."""
    test = [(s, (*t, "another")) for s, t in rows(4, seed=3)]
    return {"train": rows(40, 1), "dev": rows(9, 2), "test": test} | changes


@functools.cache
def vocabulary(seed=1, size=SIZE, **options):
    """A SentencePiece model that fits these sentences."""
    texts = [text for pair in cipher.sentences(200, seed) for text in pair]
    return train_vocabulary(texts, size, **options)


def byte_vocabulary():
    """The arguments of `prepare` for one with byte tokens."""
    size = SIZE + 256
    model = vocabulary(size=size, byte_fallback=True)
    return {"vocabulary": model, "vocabulary_size": size}


def prepare(
    folder,
    corpus=None,
    vocabulary_size=SIZE,
    max_tokens=100,
    normalization="auto",
    byte_fallback="auto",
    copy_rate=0.0,
    segmentations=1,
    workers=1,
    cleaning=None,
    **changes,
):
    """`prepare_corpus`, of `splits` with `vocabulary` by default."""
    corpus = corpus or MemoryCorpus(splits())
    source = make_data_source(
        corpus,
        vocabulary_size,
        max_tokens,
        normalization=normalization,
        byte_fallback=byte_fallback,
        copy_rate=copy_rate,
        segmentations=segmentations,
        **cleaning or {},
    )
    arguments = {"vocabulary": vocabulary()} | changes
    threads = functools.partial(map_in_threads, num_threads=workers)
    return prepare_corpus(
        folder, corpus, source, contextlib.nullcontext(threads), **arguments
    )


def contents(folder):
    """{name: bytes} of all files, hidden ones too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


def decoded(prepared, split):
    """A split as text again, in its order."""
    tokenizer = load_tokenizer(prepared.vocabulary)
    pairs = prepared.pairs(split)
    return [*zip(*decode_pairs(tokenizer, pairs, np.arange(len(pairs))))]


@contextlib.contextmanager
def refused(match):
    """Asserts that an InputError of one line is raised."""
    with pytest.raises(InputError, match=match) as caught:
        yield caught
    assert "\n" not in str(caught.value)


def assert_refused(match, folder, corpus=None, **changes):
    """Asserts that `prepare` is refused."""
    with refused(match):
        prepare(folder, corpus, **changes)
