"""Codecs: they encode corpora of text, or of trees, as token ids.

The files of a codec are stored with the shards. Every sequence of ids ends with
the end id. `tokenize` runs a codec in several threads.
"""

import collections
import concurrent.futures
import functools
import itertools
import math
import threading
import typing
import unicodedata

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.tokenizers import load_tokenizer
from export.tokenizers.python_tokenizers import (
    has_byte_fallback,
    load_python_tokenizers,
)
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
_MAX_SAMPLED_PAIRS = 1_000_000
# Maximum share of tokens for rare characters: Chinese has thousands of them.
_MAX_CHARACTER_SHARE = 0.25
# In smaller vocabularies, the 256 tokens for bytes cost BLEU.
_MIN_BYTE_FALLBACK_SIZE = 8000
_COUNTING_BATCH = 10_000
_SEED_LOCK = threading.Lock()
# Of a merge, as in section 5.1 of Provilkov et al. 2020.
_DROPOUT = 0.1
# Pairs per chunk: large enough to make call overhead negligible.
_CHUNK_PAIRS = 5_000


class TextCodec:
    """Encodes both sides with SentencePiece (section 5.1).

    Both sides share a vocabulary, unless a pretrained model has one for each.
    `files` come from `make_codec_files`; invalid files raise ValueError.
    `encode_sources` and `encode_targets` turn a list of str into a list of
    int32 arrays. `models` has the bytes of each SentencePiece model, the source
    model first. `has_byte_fallback` is whether no character is unknown. The
    vocabulary is trained on the first `num_trained_sides` of (source, target).
    """

    num_trained_sides = 2

    def __init__(self, files):
        tokenizer = load_tokenizer(files[VOCABULARY_FILE])
        self.models = tokenizer.source.proto, tokenizer.target.proto
        self.has_byte_fallback = all(map(has_byte_fallback, self.models))
        self.encode_sources = tokenizer.source.encode
        self.encode_targets = tokenizer.target.encode
        self._vocabulary = files[VOCABULARY_FILE]
        self.source_vocabulary_size = tokenizer.source.vocabulary_size
        self.target_vocabulary_size = tokenizer.target.vocabulary_size

    @functools.cached_property
    def sampling_encoders(self):
        """As `encode_sources`, `encode_targets`: random segmentations."""
        tokenizers = load_python_tokenizers(self._vocabulary)
        return [each.with_dropout(_DROPOUT).encode for each in tokenizers]

    def explain_unencodable(self, target):
        """Returns why a target cannot be encoded, or "" if it can."""
        del target
        return ""


class TreeCodec:
    """Encodes sources with SentencePiece and targets as tree symbols.

    The vocabulary is trained on words only, so that ids mark word beginnings;
    the symbols come from the train split. Has the interface of `TextCodec`.
    """

    num_trained_sides = 1
    has_byte_fallback = False

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
        """Returns why a target cannot be encoded, or "" if it can."""
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

    Counts the code points of each side that the vocabulary is trained on, int64
    [sides, 0x110000]. Finds malformed lines before the slow tokenization.
    """
    num_sides = _CODECS[corpus.kind].num_trained_sides
    pairs, num_pairs, counts = corpus.pairs("train"), 0, 0
    while batch := list(itertools.islice(pairs, _COUNTING_BATCH)):
        num_pairs += len(batch)
        sides = list(zip(*batch))[:num_sides]
        counts = np.add(counts, [count_code_points(texts) for texts in sides])
    return num_pairs, counts


def make_codec_files(
    corpus, data_source, num_pairs, counts, vocabulary=None, symbols=None
):
    """Returns the files of a codec, as a dict of name to bytes.

    Trains a vocabulary unless `vocabulary` is given. `num_pairs` and `counts`
    come from `count_pairs`; `vocabulary` and `symbols` as in `prepare_corpus`.
    """
    num_sides = _CODECS[corpus.kind].num_trained_sides

    def sampled_texts():
        stride = math.ceil(num_pairs / _MAX_SAMPLED_PAIRS)
        sample = itertools.islice(corpus.pairs("train"), 0, None, stride)
        return (text for pair in sample for text in pair[:num_sides])

    if vocabulary is None:
        size = data_source.vocabulary_size
        print(f"Training a vocabulary of {size:,} tokens.", flush=True)
        rules = choose_normalization(data_source.normalization, counts)
        limit = int(_MAX_CHARACTER_SHARE * size)
        characters = frequent_characters(sampled_texts(), limit, rules)
        byte_fallback = data_source.byte_fallback == "on" or (
            data_source.byte_fallback == "auto"
            and corpus.kind == "text"
            and size >= _MIN_BYTE_FALLBACK_SIZE
        )
        vocabulary = train_vocabulary(
            sampled_texts(),
            size,
            characters,
            rules,
            byte_fallback,
            corpus.tags,
        )
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
    """Returns the codec for "text" or "trees"; InputError if files are bad."""
    try:
        return _CODECS[kind](files)
    except ValueError as error:
        raise InputError(f"The vocabulary cannot be used: {error}") from error


class TokenizedChunk(typing.NamedTuple):
    """Token ids of consecutive pairs.

    `num_read` includes skipped pairs. `ids`, int32 [tokens], has the source and
    the target of each pair in turn, and `lengths`, int [pairs, 2], their
    lengths; `source` and `target` count their tokens. `unencodable` lists
    (index among the pairs read, reason) for targets that cannot be encoded.
    """

    num_read: int
    ids: np.ndarray
    lengths: np.ndarray
    source: SideCounts
    target: SideCounts
    unencodable: list


def tokenize(pairs, codec, max_tokens, workers, first_seed=None):
    """Yields TokenizedChunks in order, tokenized by `workers` threads.

    With `first_seed` words are segmented at random, and the seed of a chunk is
    that of its first pair.

    SentencePiece releases the GIL. At most two chunks per thread are held.
    Skips pairs with a side of more than `max_tokens` ids or a target that
    cannot be encoded. `pairs` is an iterator of (source, target) str.
    """
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        pending = collections.deque()
        try:
            while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
                task = _tokenize_chunk, chunk, codec, max_tokens
                if first_seed is not None:
                    task = _sample_chunk, first_seed, *task[1:]
                    first_seed += len(chunk)
                pending.append(pool.submit(*task))
                if len(pending) == 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _sample_chunk(seed, chunk, codec, max_tokens):
    """Segments a chunk at random."""

    def sample():
        encode, _ = codec.sampling_encoders
        with _SEED_LOCK:
            sentencepiece.set_random_generator_seed(seed)
            encode(["a"])
        return _tokenize_chunk(
            chunk, codec, max_tokens, codec.sampling_encoders
        )

    # SentencePiece seeds a thread at its first random number: so a new one.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(sample).result()


def _tokenize_chunk(chunk, codec, max_tokens, encoders=None):
    encode_sources, encode_targets = encoders or (
        codec.encode_sources,
        codec.encode_targets,
    )
    reasons = [codec.explain_unencodable(target) for _, target in chunk]
    pairs = [pair for pair, reason in zip(chunk, reasons) if not reason]
    sources = encode_sources([source for source, _ in pairs])
    targets = encode_targets([target for _, target in pairs])
    # Source and target in turn.
    texts, ids = [], []
    for pair, source, target in zip(pairs, sources, targets):
        if max(len(source), len(target)) <= max_tokens:
            texts += pair
            ids += (source, target)
    lengths = np.array([len(each) for each in ids], np.int64)
    return TokenizedChunk(
        num_read=len(chunk),
        ids=_concatenate(ids),
        lengths=lengths.reshape(-1, 2),
        source=_count_side(texts[::2], ids[::2], codec.encode_sources),
        target=_count_side(texts[1::2], ids[1::2], codec.encode_targets),
        unencodable=[(i, reason) for i, reason in enumerate(reasons) if reason],
    )


def _concatenate(ids):
    return np.concatenate([np.zeros(0, np.int32), *ids])


def _count_side(texts, ids, encode):
    """Returns the SideCounts of texts and their ids, a list of arrays."""
    ends = np.cumsum([len(each) for each in ids])
    unknown = np.flatnonzero(_concatenate(ids) == UNKNOWN_ID)
    # The text index of each unknown id.
    indices = np.searchsorted(ends, unknown, side="right")
    examples = [texts[index] for index in np.unique(indices)[:NUM_EXAMPLES]]
    text = unicodedata.normalize("NFC", " ".join(examples))
    characters = [c for c in dict.fromkeys(text) if not c.isspace()]
    is_unknown = (UNKNOWN_ID in each for each in encode(characters))
    found = itertools.compress(characters, is_unknown)
    return SideCounts(
        num_tokens=sum(map(len, ids)),
        num_unknown=len(unknown),
        unknown_characters="".join(itertools.islice(found, NUM_EXAMPLES)),
    )
