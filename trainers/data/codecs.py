"""From text to ids: a codec for each kind of corpus.

A codec is made of files that are stored with the shards. Ids end with the end
id on both sides.
"""

import itertools
import math

import numpy as np

from export.common.errors import InputError
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from keras_transformer.config import END_ID
from trainers.data.normalization import (
    choose_normalization,
    count_code_points,
)
from trainers.data.prepared_corpus import SYMBOLS_FILE, VOCABULARY_FILE
from trainers.data.vocabulary import frequent_characters, train_vocabulary

# Evenly spread: more do not change 37,000 pieces much, and SentencePiece
# holds them all in memory, about half a kB each.
_VOCABULARY_PAIRS = 1_000_000
# Share of the pieces that may be rare characters: Chinese has thousands.
_CHARACTERS = 0.25
_COUNTED_PAIRS = 10_000


class TextCodec:
    """Encodes both sides with one SentencePiece vocabulary (section 5.1).

    Or with one for each side, if the vocabulary is that of a pretrained model.

    Args:
        files: dict of name to bytes, from `make_codec_files`.

    Attributes:
        encode_sources: function from a list of str to a list of int32 arrays.
        encode_targets: the same for targets that can be encoded.
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        models: bytes of each SentencePiece model, the source's first.

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
    def vocabulary_texts(pair):
        """Returns the texts of a pair that the vocabulary is trained on."""
        return pair

    @staticmethod
    def extra_files(corpus, symbols):
        """Returns all files but the vocabulary, a dict of name to bytes."""
        del corpus, symbols
        return {}

    def explain_unencodable(self, target):
        """Returns why a target cannot be encoded; "" if it can."""
        del target
        return ""


class TreeCodec:
    """Encodes sources with SentencePiece and targets as symbols of trees.

    The vocabulary is trained on the words alone, so that the ids tell where
    each word begins; the symbols are those of the train split. Arguments,
    attributes and methods are those of `TextCodec`.
    """

    def __init__(self, files):
        # nltk takes seconds to load.
        from export.parsing.linearization import SymbolVocabulary
        from export.parsing.word_tokenizer import WordTokenizer

        tokenizer = WordTokenizer(files[VOCABULARY_FILE])
        self.models = (files[VOCABULARY_FILE],)
        self._symbols = SymbolVocabulary.from_json(files[SYMBOLS_FILE].decode())
        self.encode_sources = tokenizer.encode
        self.source_vocabulary_size = tokenizer.vocabulary_size
        self.target_vocabulary_size = self._symbols.vocabulary_size

    @staticmethod
    def vocabulary_texts(pair):
        """Returns the words."""
        return pair[:1]

    @staticmethod
    def extra_files(corpus, symbols):
        """Returns the file of symbols."""
        from export.parsing.linearization import SymbolVocabulary

        if symbols is None:
            pairs = corpus.pairs("train")
            symbols = SymbolVocabulary.from_lines(
                target.split() for _, target in pairs
            )
        return {SYMBOLS_FILE: symbols.to_json().encode()}

    def explain_unencodable(self, target):
        """Returns the label, tag or depth that is unknown; "" if none is."""
        try:
            self._symbols.encode(target.split())
        except ValueError as error:
            return str(error)
        return ""

    def encode_targets(self, texts):
        """Returns the ids of lines of symbols, a list of int32 arrays."""
        return [
            np.array([*self._symbols.encode(text.split()), END_ID], np.int32)
            for text in texts
        ]


_CODECS = {"text": TextCodec, "trees": TreeCodec}


def count_pairs(corpus):
    """Reads the train split once, which finds a broken line early.

    Returns:
        Number of pairs, and a list of the `count_code_points` of each side
        that the vocabulary is trained on.
    """
    texts_of = _CODECS[corpus.kind].vocabulary_texts
    pairs, total, counts = corpus.pairs("train"), 0, None
    while part := list(itertools.islice(pairs, _COUNTED_PAIRS)):
        total += len(part)
        more = [count_code_points(side) for side in zip(*map(texts_of, part))]
        counts = more if counts is None else [*map(np.add, counts, more)]
    return total, counts


def make_codec_files(
    corpus, source, num_pairs, counts, vocabulary=None, symbols=None
):
    """Returns the files of a corpus' codec, a dict of name to bytes.

    Args:
        corpus: Corpus.
        source: DataSource of the prepared data.
        num_pairs: number of pairs of the train split.
        counts: of its code points, from `count_pairs`.
        vocabulary: as for `prepare_corpus`.
        symbols: as for `prepare_corpus`.
    """
    codec = _CODECS[corpus.kind]

    def texts():
        stride = math.ceil(num_pairs / _VOCABULARY_PAIRS)
        sample = itertools.islice(corpus.pairs("train"), 0, None, stride)
        return itertools.chain.from_iterable(
            map(codec.vocabulary_texts, sample)
        )

    if vocabulary is None:
        size = source.vocabulary_size
        print(f"Training a vocabulary of {size:,} pieces.", flush=True)
        rules = choose_normalization(source.normalization, counts)
        limit = int(_CHARACTERS * size)
        characters = frequent_characters(texts(), limit, rules)
        vocabulary = train_vocabulary(texts(), size, characters, rules)
    return {VOCABULARY_FILE: vocabulary, **codec.extra_files(corpus, symbols)}


def make_codec(kind, files):
    """Returns the codec of a kind of corpus, "text" or "trees".

    Raises:
        InputError: the files, from `make_codec_files`, cannot be used.
    """
    try:
        return _CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error
