"""From text to ids: a codec for each kind of corpus.

A codec is made of files, which `make_files` makes out of a corpus once; they
lie beside the shards. Ids end with the end id on both sides.
"""

import itertools
import math

import numpy as np

from export.errors import InputError
from export.tokenizers.table_tokenizers import load_tokenizer
from keras_transformer.config import END_ID
from trainers.prepared.normalization import (
    choose_normalization,
    count_code_points,
)
from trainers.prepared.prepared_corpus import SYMBOLS_FILE, VOCABULARY_FILE
from trainers.prepared.vocabulary import frequent_characters, train_vocabulary

# Evenly spread: more do not change 37,000 pieces much, and SentencePiece
# holds them all in memory, about half a kB each.
_VOCABULARY_PAIRS = 1_000_000
# Part of the pieces that may go to rare characters: Chinese has thousands.
_CHARACTERS = 0.25
_COUNTED_PAIRS = 10_000


class TextCodec:
    """Both sides are pieces of one SentencePiece vocabulary (section 5.1).

    Or of one each, where a pretrained model is trained on.

    Args:
        files: dict of name to bytes, from `make_files`.

    Attributes:
        encode_sources: list of str to a list of int32 arrays.
        encode_targets: the same of targets in which nothing is `unseen`.
        source_vocabulary_size: number of ids that sources may have.
        target_vocabulary_size: the same of targets.
        models: bytes of the SentencePiece model of each side that has one.

    Raises:
        ValueError: the files are no vocabulary.
    """

    def __init__(self, files):
        tokenizer = load_tokenizer(files[VOCABULARY_FILE])
        self.models = tokenizer.source.proto, tokenizer.target.proto
        self.encode_sources = tokenizer.source.encode
        self.encode_targets = tokenizer.target.encode
        self.source_vocabulary_size = tokenizer.source.vocabulary_size
        self.target_vocabulary_size = tokenizer.target.vocabulary_size

    @staticmethod
    def texts_of(pair):
        """Returns the sides of a pair that the pieces are trained on."""
        return pair

    @staticmethod
    def other_files(corpus, symbols):
        """Returns the files beside the vocabulary, a dict of name to bytes."""
        del corpus, symbols
        return {}

    def unseen(self, target):
        """Says what in a target has no id; empty where all can be said."""
        del target
        return ""


class TreeCodec:
    """Sources are pieces of words, targets symbols of trees.

    The pieces are trained on the words alone, so that each word can be told
    in the ids; the symbols are those of the train split. See `TextCodec` for
    arguments and attributes.
    """

    def __init__(self, files):
        # nltk takes seconds to load.
        from export.parsing.linear import Symbols
        from export.parsing.words import WordTokenizer

        tokenizer = WordTokenizer(files[VOCABULARY_FILE])
        self.models = (files[VOCABULARY_FILE],)
        self._symbols = Symbols.from_json(files[SYMBOLS_FILE].decode())
        self.encode_sources = tokenizer.encode
        self.source_vocabulary_size = tokenizer.vocabulary_size
        self.target_vocabulary_size = self._symbols.vocabulary_size

    @staticmethod
    def texts_of(pair):
        """See `TextCodec`."""
        return pair[:1]

    @staticmethod
    def other_files(corpus, symbols):
        """See `TextCodec`."""
        from export.parsing.linear import Symbols

        if symbols is None:
            pairs = corpus.pairs("train")
            symbols = Symbols.of_lines(target.split() for _, target in pairs)
        return {SYMBOLS_FILE: symbols.to_json().encode()}

    def unseen(self, target):
        """See `TextCodec`."""
        try:
            self._symbols.ids(target.split())
        except ValueError as error:
            return str(error)
        return ""

    def encode_targets(self, texts):
        """See `TextCodec`."""
        return [
            np.array([*self._symbols.ids(text.split()), END_ID], np.int32)
            for text in texts
        ]


_CODECS = {"text": TextCodec, "trees": TreeCodec}


def count_pairs(corpus):
    """Reads the train split through, which finds a broken line early.

    Returns:
        How many pairs it has, and the `count_code_points` of each side that
        becomes pieces, a list.

    Raises:
        InputError: the corpus is broken.
    """
    texts_of = _CODECS[corpus.kind].texts_of
    pairs, total, counts = corpus.pairs("train"), 0, None
    while part := list(itertools.islice(pairs, _COUNTED_PAIRS)):
        total += len(part)
        more = [count_code_points(side) for side in zip(*map(texts_of, part))]
        counts = more if counts is None else [*map(np.add, counts, more)]
    return total, counts


def make_files(
    corpus, size, pairs, counts, normalization, vocabulary=None, symbols=None
):
    """Returns what the codec of a corpus is made of, a dict of name to bytes.

    Args:
        corpus: Corpus.
        size: V, number of pieces.
        pairs: how many there are in the train split.
        counts: of its code points, from `count_pairs`.
        normalization: one of `normalization.NAMES`, for a vocabulary that is
            trained.
        vocabulary: bytes of a SentencePiece model to use; None to train one
            on the train split.
        symbols: of trees, the Symbols to use; None for those of the train
            split.

    Raises:
        InputError: the corpus is broken, its text does not fit the size, or
            the vocabulary given is none.
    """
    codec = _CODECS[corpus.kind]

    def texts():
        stride = math.ceil(pairs / _VOCABULARY_PAIRS)
        some = itertools.islice(corpus.pairs("train"), 0, None, stride)
        return itertools.chain.from_iterable(map(codec.texts_of, some))

    if vocabulary is None:
        print(f"Training a vocabulary of {size:,} pieces.", flush=True)
        rules = choose_normalization(normalization, counts)
        most = int(_CHARACTERS * size)
        characters = frequent_characters(texts(), most, rules)
        vocabulary = train_vocabulary(texts(), size, characters, rules)
    return {VOCABULARY_FILE: vocabulary, **codec.other_files(corpus, symbols)}


def read_codec(kind, files):
    """Returns the codec of a kind of corpus.

    Args:
        kind: "text" or "trees", as Corpus has it.
        files: dict of name to bytes, from `make_files`.

    Raises:
        InputError: they cannot be used.
    """
    try:
        return _CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error
