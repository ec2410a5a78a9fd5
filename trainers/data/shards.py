"""Shards: memory-mapped token ids of sentence pairs.

`NAME.ids.npy` holds the ids of all pairs, the source of each before its target;
`NAME.lengths.npy`, uint16 [pairs, 2], holds their numbers of ids.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import io
import itertools
import typing
import unicodedata
import zlib

import numpy as np

from export.common.atomic_files import atomic_write
from export.common.errors import InputError

# Lengths are stored in 16 bits.
MAX_SENTENCE_LENGTH = np.iinfo(np.uint16).max


@dataclasses.dataclass(frozen=True)
class Shard:
    """Manifest entry of a shard.

    `name` is a file name without suffix. `num_read` counts pairs read,
    including skipped ones, `num_pairs` the stored pairs, and `num_tokens`
    their ids on both sides.
    """

    name: str
    num_read: int
    num_pairs: int
    num_tokens: int
    ids_crc32: int
    lengths_crc32: int

    def ids_path(self, folder):
        """Returns the path of the ids file."""
        return folder / f"{self.name}.ids.npy"

    def lengths_path(self, folder):
        """Returns the path of the lengths file."""
        return folder / f"{self.name}.lengths.npy"


def write_shard(folder, name, num_read, ids, lengths):
    """Writes the arrays of a shard atomically; returns its Shard."""
    contents = []
    for array in (ids, lengths):
        # NumPy's own write errors do not give the reason.
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        contents.append(buffer.getbuffer())
    checksums = map(zlib.crc32, contents)
    shard = Shard(name, num_read, len(lengths), len(ids), *checksums)
    paths = shard.ids_path(folder), shard.lengths_path(folder)
    for path, content in zip(paths, contents):
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
    return shard


def read_shard(folder, shard):
    """Returns a shard's (memory-mapped ids, lengths).

    Raises InputError if a file is missing or damaged. The checksum of the ids
    is not compared, because that would read the whole file.
    """
    ids_path = shard.ids_path(folder)
    lengths_path = shard.lengths_path(folder)
    ids = _memory_map(ids_path)
    lengths = _memory_map(lengths_path)
    is_valid = (
        ids.shape == (shard.num_tokens,)
        and ids.dtype in (np.uint16, np.int32)
        and ids.offset + ids.nbytes == ids_path.stat().st_size
        and lengths.shape == (shard.num_pairs, 2)
        and lengths.dtype == np.uint16
        and file_crc32(lengths_path) == shard.lengths_crc32
        and int(lengths.sum(dtype=np.int64)) == shard.num_tokens
    )
    if not is_valid:
        raise damaged_shard_error(folder, shard)
    return ids, np.array(lengths)


def damaged_shard_error(folder, shard):
    """Returns an InputError for a damaged shard."""
    return InputError(
        f"Shard {shard.name} in {folder} is damaged; remove the folder and "
        "prepare the data again."
    )


def _memory_map(path):
    try:
        # np.load would also open archives of arrays.
        return np.lib.format.open_memmap(path, mode="r")
    # Damaged headers raise various errors, such as OverflowError.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{path} cannot be read ({reason}); remove the folder and prepare "
            "the data again."
        ) from error


def file_crc32(path):
    """Returns the CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


# Pairs per chunk: large enough to make call overhead negligible.
_CHUNK = 5_000
# Number of unknown characters to print, and of texts to search for them.
_EXAMPLES = 8

# For source and target: number of unknown ids, and some unknown characters.
UnknownTokens = tuple[tuple[int, str], tuple[int, str]]
NO_UNKNOWN_TOKENS: UnknownTokens = ((0, ""), (0, ""))


class TokenizedChunk(typing.NamedTuple):
    """Token ids of consecutive pairs.

    Attributes:
        num_read: number of pairs read, skipped ones included.
        ids: int32 [tokens], source and target of each pair in turn.
        lengths: int [pairs, 2].
        unencodable: (index among the pairs read, reason) of pairs skipped
            because their target cannot be encoded.
        unknown: UnknownTokens.
    """

    num_read: int
    ids: np.ndarray
    lengths: np.ndarray
    unencodable: list
    unknown: UnknownTokens = NO_UNKNOWN_TOKENS

    @classmethod
    def concatenate(cls, chunks):
        """Concatenates a list of chunks."""
        sizes = [chunk.num_read for chunk in chunks]
        return cls(
            sum(sizes),
            np.concatenate([chunk.ids for chunk in chunks]),
            np.concatenate([chunk.lengths for chunk in chunks]),
            [
                (start + index, reason)
                for start, chunk in zip(
                    itertools.accumulate(sizes, initial=0), chunks
                )
                for index, reason in chunk.unencodable
            ],
            functools.reduce(add_unknown_tokens, (c.unknown for c in chunks)),
        )


def add_unknown_tokens(first, second):
    """Returns the sum of two UnknownTokens."""
    return tuple(
        (count + more, "".join(dict.fromkeys(characters + others))[:_EXAMPLES])
        for (count, characters), (more, others) in zip(first, second)
    )


def tokenize(pairs, codec, max_tokens, workers):
    """Yields TokenizedChunks in order, tokenized by `workers` threads.

    SentencePiece releases the GIL. At most two chunks per thread are held.
    Skips pairs with a side of more than `max_tokens` ids or a target that
    cannot be encoded. `pairs` is an iterator of (source, target) str, `codec`
    a result of `codecs.make_codec`.
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
    return TokenizedChunk(
        len(chunk),
        ids,
        lengths,
        [each for each in enumerate(reasons) if each[1]],
        _count_unknown(ids, lengths, [pairs[index] for index in stored], codec),
    )


def _count_unknown(ids, lengths, pairs, codec):
    # Keras takes seconds to import, and readers of shards do not need it.
    from keras_transformer.config import UNKNOWN_ID

    # The text index of each unknown id; sources and targets alternate.
    texts = np.searchsorted(
        lengths.cumsum(), np.flatnonzero(ids == UNKNOWN_ID), side="right"
    )
    unknown = []
    for side, encode in enumerate((codec.encode_sources, codec.encode_targets)):
        of_side = texts[texts % 2 == side]
        examples = [
            pairs[text // 2][side] for text in np.unique(of_side)[:_EXAMPLES]
        ]
        text = unicodedata.normalize("NFC", " ".join(examples))
        characters = [c for c in dict.fromkeys(text) if not c.isspace()]
        is_unknown = (UNKNOWN_ID in ids for ids in encode(characters))
        found = "".join(itertools.compress(characters, is_unknown))
        unknown.append((len(of_side), found[:_EXAMPLES]))
    return tuple(unknown)
