"""Prepared data of a corpus: manifest, shards of token ids, vocabulary.

A folder of prepared data, written by `preparation`, holds

- `manifest.json`: source, counts, checksums;
- `vocabulary.model`: the SentencePiece model;
- `symbols.json`: for trees, the symbol vocabulary;
- `train-00000.ids.npy` and so on: the ids of a shard, source and target of
  each pair in turn;
- `train-00000.lengths.npy`, uint16 [pairs, 2]: the lengths of each pair;
- `test.json`: the test split as text, with all references.
"""

import functools
import hashlib
import io
import json
import os
import pathlib
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from export.common.command import command_line
from export.common.errors import InputError
from export.common.storage import write_bytes
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet
from trainers.data.manifest import (
    Manifest,
    Shard,
    damaged_error,
    is_dev,
    read_manifest,
)

if TYPE_CHECKING:
    from export.parsing.linearization import SymbolVocabulary

VOCABULARY_FILE = "vocabulary.model"
SYMBOLS_FILE = "symbols.json"
TEST_FILE = "test.json"
# Lengths are stored in 16 bits.
MAX_SENTENCE_LENGTH = np.iinfo(np.uint16).max
# Of a group, whose lengths and plan are in memory at once: about 3 GiB.
MAX_GROUP_PAIRS = 24_000_000


class PreparedCorpus:
    """A folder of prepared data, opened for training.

    `vocabulary` has the bytes of the SentencePiece model. Constructor and
    methods raise InputError if data are missing, incomplete or damaged.
    """

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)
        manifest = read_manifest(self.folder)
        if manifest is None or not manifest.complete:
            state = "no" if manifest is None else "only unfinished"
            flag = f"--output_dir={self.folder}"
            raise InputError(
                f"There are {state} prepared data in {self.folder}; run "
                f"{command_line('trainers.prepare', flag)} with the same "
                "--dataset first."
            )
        self.manifest = manifest
        self._files = read_codec_files(self.folder, manifest)
        self.vocabulary = self._files[VOCABULARY_FILE]

    @functools.cached_property
    def symbols(self) -> "SymbolVocabulary | None":
        """SymbolVocabulary of the targets; None for text."""
        return _load_symbols(self._files)

    def pairs(self, split: str) -> TokenPairs | None:
        """Returns the TokenPairs of a split, or None if it does not exist.

        "dev" has the pairs of all dev splits of a mixture.
        """
        splits = self.manifest.splits
        names = [each for each in splits if each == split]
        if split == "dev":
            names = [*filter(is_dev, splits)]
        if not names:
            return None
        return self.load_pairs(
            shard for name in names for shard in splits[name].shards
        )

    def groups(self, split: str) -> list[tuple[Shard, ...]]:
        """Divides the Shards of a split into groups for `load_pairs`.

        A group has every n-th shard, so pairs of all parts of the corpus.
        """
        shards = self.manifest.splits[split].shards
        num_pairs = sum(shard.num_pairs for shard in shards)
        count = max(-(-num_pairs // MAX_GROUP_PAIRS), 1)
        return [shards[first::count] for first in range(count)]

    def load_pairs(self, shards: Iterable[Shard]) -> TokenPairs:
        """Returns the TokenPairs of Shards; verifies the checksums."""
        return TokenPairs([self._read_verified_shard(each) for each in shards])

    def count_tokens(
        self, shards: Iterable[Shard], max_tokens: int
    ) -> np.ndarray:
        """Counts pairs with at most `max_tokens` ids a side, and their ids.

        Returns int64 [3]: pairs, source tokens and target tokens of Shards.
        """
        counts = np.zeros(3, np.int64)
        for shard in shards:
            _, lengths = read_shard(self.folder, shard)
            # Reductions over two columns would take 4 times as long.
            source, target = lengths.T
            fits = np.maximum(source, target) <= max_tokens
            counts += [
                np.sum(each, where=fits, dtype=np.int64)
                for each in (fits, source, target)
            ]
        return counts

    def test_set(self) -> EvaluationSet | None:
        """Returns the test split as EvaluationSet, or None if there is none."""
        digest = self.manifest.test_sha256
        if not digest:
            return None
        content = json.loads(_read_verified(self.folder / TEST_FILE, digest))
        return EvaluationSet(
            tuple(content["sources"]),
            tuple(map(tuple, content["references"])),
            tuple(map(tuple, content.get("directions", ()))),
        )

    def validate_checksums(self) -> None:
        """Raises InputError unless all files match their checksums."""
        for split in self.manifest.splits.values():
            for shard in split.shards:
                self._read_verified_shard(shard)
        self.test_set()

    def _read_verified_shard(self, shard):
        arrays = read_shard(self.folder, shard)
        path, _ = shard.paths(self.folder)
        if zlib.crc32(path.read_bytes()) != shard.ids_crc32:
            raise damaged_error(path)
        return arrays


def write_shard(
    folder: pathlib.Path, name: str, ids: np.ndarray, lengths: np.ndarray
) -> Shard:
    """Writes the arrays of a shard atomically; returns its Shard."""
    contents = []
    for array in (ids, lengths):
        # NumPy's own write errors do not give the reason.
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        contents.append(buffer.getbuffer())
    ids_crc32, lengths_crc32 = map(zlib.crc32, contents)
    shard = Shard(name, len(lengths), len(ids), ids_crc32, lengths_crc32)
    for path, content in zip(shard.paths(folder), contents):
        write_bytes(path, content)
    return shard


def read_shard(
    folder: pathlib.Path, shard: Shard
) -> tuple[np.ndarray, np.ndarray]:
    """Returns a shard's (memory-mapped ids, lengths), or raises InputError.

    Skips the checksum of the ids, which would read the whole file.
    """
    ids_path, lengths_path = shard.paths(folder)
    ids, lengths = _memory_map(ids_path), _memory_map(lengths_path)
    if (
        ids.shape != (shard.num_tokens,)
        or ids.dtype not in (np.uint16, np.int32)
        or ids.offset + ids.nbytes != ids_path.stat().st_size
    ):
        raise damaged_error(ids_path)
    if (
        lengths.shape != (shard.num_pairs, 2)
        or lengths.dtype != np.uint16
        or zlib.crc32(lengths_path.read_bytes()) != shard.lengths_crc32
        or lengths.sum(dtype=np.int64) != shard.num_tokens
    ):
        raise damaged_error(lengths_path)
    return ids, np.array(lengths)


def _memory_map(path):
    try:
        # np.load would also open archives of arrays.
        return np.lib.format.open_memmap(path, mode="r")
    # Damaged headers raise various errors, such as OverflowError.
    except Exception as error:
        raise damaged_error(path, str(error).partition("\n")[0]) from error


def _read_verified(path, digest):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise damaged_error(path, error.strerror) from error
    if sha256(content) != digest:
        raise damaged_error(path)
    return content


def sha256(content: bytes) -> str:
    """Returns the SHA-256 of bytes in hex."""
    return hashlib.sha256(content).hexdigest()


def read_codec_files(
    folder: pathlib.Path, manifest: Manifest
) -> dict[str, bytes]:
    """Returns a codec's verified files, as a dict of name to bytes."""
    digests = {VOCABULARY_FILE: manifest.vocabulary_sha256}
    if manifest.symbols_sha256:
        digests[SYMBOLS_FILE] = manifest.symbols_sha256
    return {
        name: _read_verified(folder / name, digest)
        for name, digest in digests.items()
    }


def _load_symbols(files):
    if SYMBOLS_FILE not in files:
        return None
    # nltk takes seconds to import.
    from export.parsing.linearization import SymbolVocabulary

    return SymbolVocabulary.from_json(files[SYMBOLS_FILE].decode())


def validate_codec(
    folder: pathlib.Path,
    manifest: Manifest,
    vocabulary: bytes | None,
    symbols: "SymbolVocabulary | None",
) -> None:
    """Raises InputError unless the data have this vocabulary and symbols.

    None accepts any.
    """
    digest = manifest.vocabulary_sha256
    if vocabulary is not None and sha256(vocabulary) != digest:
        raise InputError(
            f"The data in {folder} were prepared with another vocabulary than "
            "the model's; prepare them in another folder, with "
            "--vocabulary=MODEL_DIR/vocabulary.model."
        )
    if symbols is None:
        return
    stored = _load_symbols(read_codec_files(folder, manifest))
    difference = symbols.describe_difference(stored)
    if difference:
        raise InputError(
            f"The data in {folder} were prepared with other labels and tags "
            f"than the model's: only one of them has {difference}; prepare "
            "them in another folder, with --symbols=MODEL_DIR/symbols.json."
        )
