"""Prepared data of a corpus: manifest, shards of token ids, vocabulary.

A folder of prepared data, written by `preparation`, holds

- `manifest.json`: source, counts, checksums;
- `vocabulary.model`: the SentencePiece model;
- `symbols.json`: for trees, the symbol vocabulary;
- `train-00000.ids.npy` and so on: ids of all pairs of a shard, the source of
  each before its target;
- `train-00000.lengths.npy`, uint16 [pairs, 2]: their numbers of ids;
- `test.json`: the test split as text, with all references.
"""

import dataclasses
import functools
import hashlib
import io
import json
import pathlib
import typing
import zlib

import numpy as np

from export.common.command import command_line
from export.common.errors import InputError
from export.common.storage import atomic_write, write_json
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet

MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocabulary.model"
SYMBOLS_FILE = "symbols.json"
TEST_FILE = "test.json"
# Lengths are stored in 16 bits.
MAX_SENTENCE_LENGTH = np.iinfo(np.uint16).max

_FORMAT = 1
# Number of unknown characters to print.
NUM_EXAMPLES = 8

# For source and target: number of unknown ids, and some unknown characters.
UnknownTokens = tuple[tuple[int, str], tuple[int, str]]
NO_UNKNOWN_TOKENS: UnknownTokens = ((0, ""), (0, ""))


def add_unknown_tokens(first, second):
    """Returns the sum of two UnknownTokens."""
    return tuple(
        (
            count + more,
            "".join(dict.fromkeys(characters + others))[:NUM_EXAMPLES],
        )
        for (count, characters), (more, others) in zip(first, second)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSource:
    """Everything that determines prepared data.

    `max_tokens` is the maximum length of a side with its end id, and
    `normalization` is one of `vocabulary.NORMALIZATIONS`.
    """

    dataset: str
    source_language: str
    target_language: str
    fingerprint: str
    vocabulary_size: int
    max_tokens: int
    normalization: str = "auto"


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

    def paths(self, folder):
        """Returns the paths of the ids and of the lengths."""
        return [
            folder / f"{self.name}.{array}.npy" for array in ("ids", "lengths")
        ]


@dataclasses.dataclass(frozen=True)
class Split:
    """Shards of a split in corpus order, and token counts with end ids.

    `num_unencodable` counts pairs skipped because their target cannot be
    encoded; `first_unencodable` gives the line and the reason of the first.
    """

    shards: tuple[Shard, ...] = ()
    source_tokens: int = 0
    target_tokens: int = 0
    num_unencodable: int = 0
    first_unencodable: str = ""
    unknown: UnknownTokens = NO_UNKNOWN_TOKENS

    @property
    def num_pairs(self):
        """Number of stored pairs."""
        return sum(shard.num_pairs for shard in self.shards)

    @property
    def num_read(self):
        """Number of corpus pairs read, skipped ones included."""
        return sum(shard.num_read for shard in self.shards)

    @property
    def num_too_long(self):
        """Number of pairs skipped because a side is too long."""
        return self.num_read - self.num_pairs - self.num_unencodable

    def with_shard(self, shard, chunk):
        """Returns the split with another Shard, made from a TokenizedChunk."""
        first = self.first_unencodable
        if chunk.unencodable and not first:
            index, reason = chunk.unencodable[0]
            first = f"line {self.num_read + index + 1:,}: {reason}"
        source_tokens, target_tokens = chunk.lengths.sum(axis=0).tolist()
        return Split(
            (*self.shards, shard),
            self.source_tokens + source_tokens,
            self.target_tokens + target_tokens,
            self.num_unencodable + len(chunk.unencodable),
            first,
            add_unknown_tokens(self.unknown, chunk.unknown),
        )


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Contents of a folder of prepared data.

    `test_sha256` is "" without a test split, `symbols_sha256` is "" for text.
    """

    source: DataSource
    vocabulary_sha256: str
    test_sha256: str = ""
    splits: dict[str, Split] = dataclasses.field(default_factory=dict)
    complete: bool = False
    symbols_sha256: str = ""

    @property
    def kind(self):
        """Kind of the corpus, "text" or "trees"."""
        return "trees" if self.symbols_sha256 else "text"

    def with_split(self, name, split):
        """Returns a copy with a split added or replaced."""
        return dataclasses.replace(self, splits={**self.splits, name: split})


class PreparedCorpus:
    """A folder of prepared data, opened for training.

    `vocabulary` has the bytes of the SentencePiece model. Raises InputError if
    data are missing, incomplete or damaged.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        manifest = read_manifest(self.folder)
        if manifest is None or not manifest.complete:
            state = "no" if manifest is None else "only unfinished"
            prepare = command_line(
                "trainers.prepare", f"--output_dir={self.folder}"
            )
            raise InputError(
                f"There are {state} prepared data in {self.folder}; run "
                f"{prepare} with the same --dataset first."
            )
        self.manifest = manifest
        self._files = read_codec_files(self.folder, manifest)
        self.vocabulary = self._files[VOCABULARY_FILE]

    @functools.cached_property
    def symbols(self):
        """SymbolVocabulary of the targets; None for text."""
        return _symbols(self._files)

    def pairs(self, split):
        """Returns the TokenPairs of a split, or None if it does not exist."""
        if split not in self.manifest.splits:
            return None
        shards = self.manifest.splits[split].shards
        return TokenPairs([read_shard(self.folder, each) for each in shards])

    def test_set(self):
        """Returns the test split as EvaluationSet, or None if there is none."""
        digest = self.manifest.test_sha256
        if not digest:
            return None
        content = json.loads(_read(self.folder / TEST_FILE, digest))
        return EvaluationSet(
            tuple(content["sources"]), tuple(map(tuple, content["references"]))
        )

    def check(self):
        """Raises InputError unless all files match their checksums."""
        for split in self.manifest.splits.values():
            for shard in split.shards:
                read_shard(self.folder, shard)
                path, _ = shard.paths(self.folder)
                if _crc32(path) != shard.ids_crc32:
                    raise _damaged(path)
        self.test_set()


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
    for path, content in zip(shard.paths(folder), contents):
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
    return shard


def read_shard(folder, shard):
    """Returns a shard's (memory-mapped ids, lengths).

    Raises InputError if a file is missing or damaged. The checksum of the ids
    is not compared, because that would read the whole file.
    """
    ids_path, lengths_path = shard.paths(folder)
    ids, lengths = map(_memory_map, (ids_path, lengths_path))
    if (
        ids.shape != (shard.num_tokens,)
        or ids.dtype not in (np.uint16, np.int32)
        or ids.offset + ids.nbytes != ids_path.stat().st_size
    ):
        raise _damaged(ids_path)
    if (
        lengths.shape != (shard.num_pairs, 2)
        or lengths.dtype != np.uint16
        or _crc32(lengths_path) != shard.lengths_crc32
        or lengths.sum(dtype=np.int64) != shard.num_tokens
    ):
        raise _damaged(lengths_path)
    return ids, np.array(lengths)


def _memory_map(path):
    try:
        # np.load would also open archives of arrays.
        return np.lib.format.open_memmap(path, mode="r")
    # Damaged headers raise various errors, such as OverflowError.
    except Exception as error:
        raise _damaged(path, str(error).partition("\n")[0]) from error


def _crc32(path):
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _damaged(path, reason="it is not the file that was prepared"):
    return InputError(
        f"Cannot use {path} ({reason}); remove {path.parent} and prepare the "
        "data again."
    )


def _read(path, sha256):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _damaged(path, error.strerror) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _damaged(path)
    return content


def write_manifest(folder, manifest):
    """Writes the manifest of a folder atomically."""
    content = {"format": _FORMAT, **dataclasses.asdict(manifest)}
    write_json(folder / MANIFEST_FILE, content)


def read_manifest(folder):
    """Returns the manifest of a folder, or None; InputError if malformed."""
    path = folder / MANIFEST_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        manifest = _parse("manifest", Manifest, content)
        for split in manifest.splits.values():
            for shard in split.shards:
                # The name becomes part of a path.
                if not shard.name.replace("-", "").isalnum():
                    raise ValueError(f"{shard.name!r} is no name of a shard")
        return manifest
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}; give another folder."
        ) from error
    # Errors raised by JSON of any other form.
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, error) from error


def _parse(name, kind, value):
    """Converts a JSON value to an annotated type, or raises ValueError."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    expected = {tuple: list}.get(origin, origin or kind)
    if dataclasses.is_dataclass(kind):
        expected = dict
    if type(value) is not expected:
        raise ValueError(f"{name} is not of type {expected.__name__}")
    if kind is int and value < 0:
        raise ValueError(f"{name} is below 0")
    if dataclasses.is_dataclass(kind):
        fields = typing.get_type_hints(kind).items()
        return kind(**{key: _parse(key, t, value[key]) for key, t in fields})
    if origin is dict:
        return {key: _parse(key, arguments[1], value[key]) for key in value}
    if origin is tuple:
        if arguments[-1] is ...:
            arguments = arguments[:1] * len(value)
        items = zip(arguments, value, strict=True)
        return tuple(_parse(name, each, item) for each, item in items)
    return value


def read_codec_files(folder, manifest):
    """Returns a codec's verified files, as a dict of name to bytes."""
    digests = {VOCABULARY_FILE: manifest.vocabulary_sha256}
    if manifest.symbols_sha256:
        digests[SYMBOLS_FILE] = manifest.symbols_sha256
    return {
        name: _read(folder / name, digest) for name, digest in digests.items()
    }


def _symbols(files):
    if SYMBOLS_FILE not in files:
        return None
    # nltk takes seconds to import.
    from export.parsing.linearization import SymbolVocabulary

    return SymbolVocabulary.from_json(files[SYMBOLS_FILE].decode())


def validate_vocabulary(folder, manifest, vocabulary):
    """Raises InputError unless the data have the given vocabulary, or None."""
    if vocabulary is None:
        return
    if hashlib.sha256(vocabulary).hexdigest() != manifest.vocabulary_sha256:
        raise InputError(
            f"The data in {folder} were prepared with another vocabulary than "
            "the model's; prepare them in another folder, with "
            "--vocabulary=MODEL_DIR/vocabulary.model."
        )


def validate_symbols(folder, manifest, symbols):
    """Raises InputError unless the data have the given symbols, or None."""
    if symbols is None:
        return
    difference = symbols.describe_difference(
        _symbols(read_codec_files(folder, manifest))
    )
    if difference:
        raise InputError(
            f"The data in {folder} were prepared with other labels and tags "
            f"than the model's: only one of them has {difference}; prepare "
            "them in another folder, with --symbols=MODEL_DIR/symbols.json."
        )
