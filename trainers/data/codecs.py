"""Codecs, which turn the text of each kind of corpus into token ids.

The files of a codec are stored with the shards. Sequences of ids end with the
end id on both sides.
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

# A larger sample hardly changes 37,000 pieces, and SentencePiece holds it in
# memory (about 0.5 kB per pair).
_VOCABULARY_PAIRS = 1_000_000
# Maximum share of pieces for rare characters: Chinese has thousands of them.
_CHARACTERS = 0.25
_COUNTED_PAIRS = 10_000


class TextCodec:
    """Encodes both sides with SentencePiece (section 5.1).

    The vocabulary is shared by both sides, unless it is that of a pretrained
    model with one for each side. `files` is a dict of file name to bytes, from
    `make_codec_files`; invalid ones raise ValueError.

    Attributes:
        encode_sources: function from a list of str to a list of int32 arrays.
        encode_targets: the same for targets that can be encoded.
        source_vocabulary_size: int.
        target_vocabulary_size: int.
        models: bytes of each SentencePiece model, the source model first.
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
        """Returns all files except the vocabulary: dict of name to bytes."""
        del corpus, symbols
        return {}

    def explain_unencodable(self, target):
        """Returns why a target cannot be encoded, or "" if it can."""
        del target
        return ""


class TreeCodec:
    """Encodes sources with SentencePiece and targets as tree symbols.

    The vocabulary is trained on words only, so that ids mark word beginnings;
    the symbols are those of the train split. Has the interface of `TextCodec`.
    """

    def __init__(self, files):
        # nltk takes seconds to import.
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
        """Returns the source words, without the tree."""
        return pair[:1]

    @staticmethod
    def extra_files(corpus, symbols):
        """Returns the symbol file, by default of the train split's symbols."""
        from export.parsing.linearization import SymbolVocabulary

        if symbols is None:
            pairs = corpus.pairs("train")
            symbols = SymbolVocabulary.from_lines(
                target.split() for _, target in pairs
            )
        return {SYMBOLS_FILE: symbols.to_json().encode()}

    def explain_unencodable(self, target):
        """Returns which label, tag or depth is unknown, or "" if none is."""
        try:
            self._symbols.encode(target.split())
        except ValueError as error:
            return str(error)
        return ""

    def encode_targets(self, texts):
        """Encodes lines of symbols as a list of int32 arrays."""
        return [
            np.array([*self._symbols.encode(text.split()), END_ID], np.int32)
            for text in texts
        ]


_CODECS = {"text": TextCodec, "trees": TreeCodec}


def count_pairs(corpus):
    """Counts the pairs of the train split, and the code points of its text.

    Finds malformed lines before the slow tokenization. Returns the number of
    pairs, and a list with the `count_code_points` of each side that the
    vocabulary is trained on.
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
    """Returns the files of a codec, as a dict of name to bytes.

    Trains a vocabulary unless `vocabulary` is given. `counts` are those of
    `count_pairs`; see `prepare_corpus` for `vocabulary` and `symbols`.
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
    """Returns the codec for a kind of corpus; InputError for invalid files."""
    try:
        return _CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error
