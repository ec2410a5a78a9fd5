"""Codecs, which turn the text of each kind of corpus into token ids.

The files of a codec are stored with the shards. Sequences of ids end with the
end id on both sides. `tokenize` runs a codec in several threads.
"""

import collections
import concurrent.futures
import itertools
import math
import typing
import unicodedata

import numpy as np

from export.common.errors import InputError
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from keras_transformer.config import END_ID, UNKNOWN_ID
from trainers.data.prepared_corpus import (
    NUM_EXAMPLES,
    SYMBOLS_FILE,
    VOCABULARY_FILE,
    SideCounts,
)
from trainers.data.vocabulary import (
    choose_normalization,
    count_code_points,
    frequent_characters,
    train_vocabulary,
)

# A larger sample hardly changes 37,000 tokens, and SentencePiece holds it in
# memory (about 0.5 kB per pair).
_VOCABULARY_PAIRS = 1_000_000
# Maximum share of tokens for rare characters: Chinese has thousands of them.
_CHARACTERS = 0.25
_COUNTED_PAIRS = 10_000
# Pairs per chunk: large enough to make call overhead negligible.
_CHUNK = 5_000


class TextCodec:
    """Encodes both sides with SentencePiece (section 5.1).

    The vocabulary is shared by both sides, unless it is that of a pretrained
    model with one for each side. `files` are those of `make_codec_files`;
    invalid ones raise ValueError. `encode_sources` and `encode_targets` turn a
    list of str into a list of int32 arrays. `models` has the bytes of each
    SentencePiece model, the source model first, and `vocabulary_sides` is the
    number of sides that the vocabulary is trained on.
    """

    vocabulary_sides = 2

    def __init__(self, files):
        tokenizer = load_tokenizer(files[VOCABULARY_FILE])
        self.models = tokenizer.source.proto, tokenizer.target.proto
        self.encode_sources = tokenizer.source.encode
        self.encode_targets = tokenizer.target.encode
        self.source_vocabulary_size = tokenizer.source.vocabulary_size
        self.target_vocabulary_size = tokenizer.target.vocabulary_size

    def explain_unencodable(self, target):
        """Returns why a target cannot be encoded, or "" if it can."""
        del target
        return ""


class TreeCodec:
    """Encodes sources with SentencePiece and targets as tree symbols.

    The vocabulary is trained on words only, so that ids mark word beginnings;
    the symbols are those of the train split. Has the interface of `TextCodec`.
    """

    vocabulary_sides = 1

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
    """Returns the number of training pairs, and the counts of code points.

    Those are the `count_code_points` of each side that the vocabulary is
    trained on. Finds malformed lines before the slow tokenization.
    """
    sides = _CODECS[corpus.kind].vocabulary_sides
    pairs, total, counts = corpus.pairs("train"), 0, 0
    while part := list(itertools.islice(pairs, _COUNTED_PAIRS)):
        total += len(part)
        texts = [*zip(*part)][:sides]
        counts = np.add(counts, [count_code_points(side) for side in texts])
    return total, counts


def make_codec_files(
    corpus, source, num_pairs, counts, vocabulary=None, symbols=None
):
    """Returns the files of a codec, as a dict of name to bytes.

    Trains a vocabulary unless `vocabulary` is given. `counts` are those of
    `count_pairs`; see `prepare_corpus` for `vocabulary` and `symbols`.
    """
    sides = _CODECS[corpus.kind].vocabulary_sides

    def texts():
        stride = math.ceil(num_pairs / _VOCABULARY_PAIRS)
        sample = itertools.islice(corpus.pairs("train"), 0, None, stride)
        return (text for pair in sample for text in pair[:sides])

    if vocabulary is None:
        size = source.vocabulary_size
        print(f"Training a vocabulary of {size:,} tokens.", flush=True)
        rules = choose_normalization(source.normalization, counts)
        limit = int(_CHARACTERS * size)
        characters = frequent_characters(texts(), limit, rules)
        vocabulary = train_vocabulary(texts(), size, characters, rules)
    files = {VOCABULARY_FILE: vocabulary}
    if corpus.kind == "trees":
        if symbols is None:
            from export.parsing.linearization import SymbolVocabulary

            symbols = SymbolVocabulary.from_linearized_trees(
                target.split() for _, target in corpus.pairs("train")
            )
        files[SYMBOLS_FILE] = symbols.to_json().encode()
    return files


def make_codec(kind, files):
    """Returns the codec for a kind of corpus; InputError for invalid files."""
    try:
        return _CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error


class TokenizedChunk(typing.NamedTuple):
    """Token ids of consecutive pairs.

    Of the `num_read` pairs read, those not skipped are in `ids`, int32
    [tokens], source and target in turn, and `lengths`, int [pairs, 2];
    `source` and `target` count their tokens. `unencodable` has (index among
    the pairs read, reason) of targets that cannot be encoded.
    """

    num_read: int
    ids: np.ndarray
    lengths: np.ndarray
    source: SideCounts
    target: SideCounts
    unencodable: list


def tokenize(pairs, codec, max_tokens, workers):
    """Yields TokenizedChunks in order, tokenized by `workers` threads.

    SentencePiece releases the GIL. At most two chunks per thread are held.
    Skips pairs with a side of more than `max_tokens` ids or a target that
    cannot be encoded. `pairs` is an iterator of (source, target) str.
    """
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        pending = collections.deque()
        try:
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                pending.append(
                    pool.submit(_tokenize_chunk, chunk, codec, max_tokens)
                )
                if len(pending) == 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _tokenize_chunk(chunk, codec, max_tokens):
    reasons = [codec.explain_unencodable(target) for _, target in chunk]
    pairs = [pair for pair, reason in zip(chunk, reasons) if not reason]
    sources = codec.encode_sources([source for source, _ in pairs])
    targets = codec.encode_targets([target for _, target in pairs])
    sides = [list(map(len, sources)), list(map(len, targets))]
    lengths = np.array(sides, np.int64).T
    stored = np.flatnonzero(lengths.max(axis=1) <= max_tokens)
    ids = [np.zeros(0, np.int32)]
    for index in stored:
        ids += sources[index], targets[index]
    ids, lengths = np.concatenate(ids), lengths[stored]
    # The text index of each unknown id; sources and targets alternate.
    unknown = np.searchsorted(
        lengths.cumsum(), np.flatnonzero(ids == UNKNOWN_ID), side="right"
    )
    counts = []
    for side, encode in enumerate((codec.encode_sources, codec.encode_targets)):
        indices = unknown[unknown % 2 == side] // 2
        texts = [
            pairs[stored[index]][side]
            for index in np.unique(indices)[:NUM_EXAMPLES]
        ]
        total = int(lengths[:, side].sum())
        characters = _unknown_characters(texts, encode)
        counts.append(SideCounts(total, len(indices), characters))
    unencodable = [each for each in enumerate(reasons) if each[1]]
    return TokenizedChunk(len(chunk), ids, lengths, *counts, unencodable)


def _unknown_characters(texts, encode):
    text = unicodedata.normalize("NFC", " ".join(texts))
    characters = [c for c in dict.fromkeys(text) if not c.isspace()]
    is_unknown = (UNKNOWN_ID in ids for ids in encode(characters))
    found = itertools.compress(characters, is_unknown)
    return "".join(itertools.islice(found, NUM_EXAMPLES))
