"""Shards: many sentence pairs as ids, in two arrays read in place.

`NAME.ids.npy` holds the ids of every pair, source then target, one after the
other; `NAME.lengths.npy`, uint16 [pairs, 2], says how many each has. Pairs
become ids on several threads, in order, in bounded memory.
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

from export.errors import InputError
from export.files.atomic import written_whole

# A length must fit the arrays' 16 bits.
MAX_SENTENCE_LENGTH = np.iinfo(np.uint16).max


@dataclasses.dataclass(frozen=True)
class Shard:
    """What the manifest knows of a shard.

    Attributes:
        name: of its files, without their endings.
        read: pairs of the corpus it was made from, those left out counted.
        pairs: pairs in it.
        tokens: ids in it, both sides together.
        ids_crc32: checksum of the file of ids.
        lengths_crc32: checksum of the file of lengths.
    """

    name: str
    read: int
    pairs: int
    tokens: int
    ids_crc32: int
    lengths_crc32: int

    def ids_path(self, folder):
        """Returns the file of ids."""
        return folder / f"{self.name}.ids.npy"

    def lengths_path(self, folder):
        """Returns the file of lengths."""
        return folder / f"{self.name}.lengths.npy"


def write_shard(folder, name, read, ids, lengths):
    """Writes a shard.

    Args:
        folder: pathlib.Path.
        name: of the files, without their endings.
        read: pairs of the corpus it was made from.
        ids: uint16 or int32 [tokens].
        lengths: uint16 [pairs, 2].

    Returns:
        Shard.

    Raises:
        InputError: the system refused to write.
    """
    contents = [_npy(array) for array in (ids, lengths)]
    checksums = map(zlib.crc32, contents)
    shard = Shard(name, read, len(lengths), len(ids), *checksums)
    paths = shard.ids_path(folder), shard.lengths_path(folder)
    for path, content in zip(paths, contents):
        with written_whole(path) as temporary:
            temporary.write_bytes(content)
    return shard


def _npy(array):
    # NumPy itself does not say why it could not write a file.
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getbuffer()


def read_shard(folder, shard):
    """Opens a shard; its ids stay on disk until they are used.

    Args:
        folder: pathlib.Path.
        shard: Shard.

    Returns:
        ids, a memory map of uint16 or int32 [tokens], and lengths, uint16
        [pairs, 2].

    Raises:
        InputError: a file is missing or damaged. The checksum of the ids is
            not looked at here: that would read all of them.
    """
    ids_path = shard.ids_path(folder)
    lengths_path = shard.lengths_path(folder)
    ids = _load(ids_path)
    lengths = _load(lengths_path)
    fits = (
        ids.shape == (shard.tokens,)
        and ids.dtype in (np.uint16, np.int32)
        and ids.offset + ids.nbytes == ids_path.stat().st_size
        and lengths.shape == (shard.pairs, 2)
        and lengths.dtype == np.uint16
        and file_crc32(lengths_path) == shard.lengths_crc32
        and int(lengths.sum(dtype=np.int64)) == shard.tokens
    )
    if not fits:
        raise damaged(folder, shard)
    return ids, np.array(lengths)


def damaged(folder, shard):
    """Returns the InputError of a shard that is not what was written."""
    return InputError(
        f"Shard {shard.name} in {folder} is damaged; remove the folder and "
        "prepare the data again."
    )


def _load(path):
    try:
        # Not np.load, which opens archives of arrays as well.
        return np.lib.format.open_memmap(path, mode="r")
    # What a damaged header raises is anything between ValueError and
    # OverflowError.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{path} cannot be read ({reason}); remove the folder and prepare "
            "the data again."
        ) from error


def file_crc32(path):
    """Returns the CRC-32 of a file's bytes."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


# Large enough that a call costs nothing beside its work.
_CHUNK = 5_000
# Of unknown characters, and the texts that these are looked for in.
_EXAMPLES = 8


class TokenisedChunk(typing.NamedTuple):
    """Some pairs as ids.

    Attributes:
        read: pairs there were, those left out counted.
        ids: int32 [tokens], source and target of each pair in turn.
        lengths: integers [pairs, 2].
        unseen: list of (place among the pairs that there were, why), of
            those whose target cannot be said in ids.
        unknown: of source and target, how many of the ids are unknown, and
            characters that are.
    """

    read: int
    ids: np.ndarray
    lengths: np.ndarray
    unseen: list
    unknown: tuple = ((0, ""), (0, ""))

    @classmethod
    def joined(cls, chunks):
        """Returns the chunks of a list as one."""
        starts = itertools.accumulate((each.read for each in chunks), initial=0)
        return cls(
            sum(chunk.read for chunk in chunks),
            np.concatenate([chunk.ids for chunk in chunks]),
            np.concatenate([chunk.lengths for chunk in chunks]),
            [
                (start + place, reason)
                for start, chunk in zip(starts, chunks)
                for place, reason in chunk.unseen
            ],
            functools.reduce(add_unknown, (chunk.unknown for chunk in chunks)),
        )


def add_unknown(first, second):
    """Returns the sum of two `TokenisedChunk.unknown`, the first one first."""
    return tuple(
        (a + b, "".join(dict.fromkeys(some + more))[:_EXAMPLES])
        for (a, some), (b, more) in zip(first, second)
    )


def tokenise(pairs, codec, max_tokens, workers):
    """Yields TokenisedChunks in the order of the pairs.

    The threads do run side by side: SentencePiece does its work outside
    Python's lock. At most two chunks a thread are held.

    Args:
        pairs: iterator of (source, target) str.
        codec: as `codecs.read_codec` returns it.
        max_tokens: pairs with a side of more ids than this, the end id
            counted, are left out, as are those with a target that has none.
        workers: number of threads.
    """

    def run(chunk):
        return _tokenise_chunk(chunk, codec, max_tokens)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        waiting = collections.deque()
        try:
            while chunk := list(itertools.islice(pairs, _CHUNK)):
                waiting.append(pool.submit(run, chunk))
                if len(waiting) == 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _tokenise_chunk(chunk, codec, max_tokens):
    # Keras takes seconds to load, which a reader of shards does not need.
    from keras_transformer.config import UNKNOWN_ID

    reasons = [codec.unseen(target) for _, target in chunk]
    said = [pair for pair, reason in zip(chunk, reasons) if not reason]
    sources = codec.encode_sources([source for source, _ in said])
    targets = codec.encode_targets([target for _, target in said])
    sides = [list(map(len, sources)), list(map(len, targets))]
    lengths = np.array(sides, np.int64).T
    kept = lengths.max(axis=1) <= max_tokens
    ids = [np.zeros(0, np.int32)]
    for number in np.flatnonzero(kept):
        ids += sources[number], targets[number]
    unseen = [each for each in enumerate(reasons) if each[1]]
    ids, lengths = np.concatenate(ids), lengths[kept]
    # Of all texts, sources and targets in turn, those with unknown ids.
    texts = np.searchsorted(
        lengths.cumsum(), np.flatnonzero(ids == UNKNOWN_ID), side="right"
    )
    pairs = np.flatnonzero(kept)
    unknown = tuple(
        (
            int((texts % 2 == side).sum()),
            _unknown_characters(
                [said[pairs[n // 2]][side] for n in _first(texts, side)],
                encode,
            ),
        )
        for side, encode in enumerate(
            (codec.encode_sources, codec.encode_targets)
        )
    )
    return TokenisedChunk(len(chunk), ids, lengths, unseen, unknown)


def _first(texts, side):
    return np.unique(texts[texts % 2 == side])[:_EXAMPLES]


def _unknown_characters(texts, encode):
    """Returns characters of texts that have no id, a str."""
    from keras_transformer.config import UNKNOWN_ID

    text = unicodedata.normalize("NFC", " ".join(texts))
    characters = [each for each in dict.fromkeys(text) if not each.isspace()]
    unknown = (UNKNOWN_ID in ids for ids in encode(characters))
    return "".join(itertools.compress(characters, unknown))[:_EXAMPLES]
