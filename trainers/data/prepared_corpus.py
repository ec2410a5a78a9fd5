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
from export.common.storage import atomic_write, explain_read_errors, write_json
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet

MANIFEST_FILE = "manifest.json"
VOCABULARY_FILE = "vocabulary.model"
SYMBOLS_FILE = "symbols.json"
TEST_FILE = "test.json"
# Lengths are stored in 16 bits.
MAX_SENTENCE_LENGTH = np.iinfo(np.uint16).max

# Of older manifests, which lack these fields of a DataSource.
_OLD_SOURCE = {
    "byte_fallback": "auto",
    "copy_rate": 0.0,
    "segmentations": 1,
    "max_ratio": 0.0,
    "drop_duplicates": False,
    "check_languages": False,
}
_OLD_SPLIT = {
    "direction": [],
    "cleaning": {"duplicate": 0, "language": 0, "ratio": 0},
}
# Number of unknown characters that are stored and printed.
NUM_EXAMPLES = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSource:
    """Everything that determines prepared data.

    `max_tokens` is the maximum length of a side, the end id included. No
    `max_ratio` is 0.
    """

    dataset: str
    source_language: str
    target_language: str
    fingerprint: str
    vocabulary_size: int
    max_tokens: int
    normalization: str = "auto"
    byte_fallback: str = "auto"
    copy_rate: float = 0.0
    segmentations: int = 1
    max_ratio: float = 0.0
    drop_duplicates: bool = False
    check_languages: bool = False

    @property
    def languages(self):
        """The languages that training pairs are checked for, or ()."""
        if not self.check_languages:
            return ()
        return self.source_language, self.target_language


@dataclasses.dataclass(frozen=True)
class Shard:
    """Manifest entry of a shard: file name without suffix, counts, checksums.

    `num_tokens` counts both sides.
    """

    name: str
    num_pairs: int
    num_tokens: int
    ids_crc32: int
    lengths_crc32: int

    def paths(self, folder):
        """Returns the paths of the ids and of the lengths."""
        return [folder / f"{self.name}.{n}.npy" for n in ("ids", "lengths")]


@dataclasses.dataclass(frozen=True)
class SideCounts:
    """Token counts of the source or target, and some unknown characters."""

    num_tokens: int = 0
    num_unknown: int = 0
    unknown_characters: str = ""

    def __add__(self, other):
        characters = self.unknown_characters + other.unknown_characters
        return SideCounts(
            self.num_tokens + other.num_tokens,
            self.num_unknown + other.num_unknown,
            "".join(dict.fromkeys(characters))[:NUM_EXAMPLES],
        )


@dataclasses.dataclass(frozen=True)
class CleaningCounts:
    """Numbers of pairs that each cleaning rule has removed."""

    duplicate: int = 0
    language: int = 0
    ratio: int = 0

    def __add__(self, other):
        return CleaningCounts(
            self.duplicate + other.duplicate,
            self.language + other.language,
            self.ratio + other.ratio,
        )

    @property
    def total(self):
        """Number of pairs that were removed."""
        return self.duplicate + self.language + self.ratio


@dataclasses.dataclass(frozen=True)
class Split:
    """Shards of a split in corpus order, and counts of their pairs.

    `num_read` includes skipped pairs. `num_unencodable` counts pairs whose
    target cannot be encoded; `first_unencodable` is line and reason of the
    first, such as "line 7: ...". `direction` has source and target language of
    a dev split of a mixture, otherwise nothing.
    """

    shards: tuple[Shard, ...] = ()
    num_read: int = 0
    source: SideCounts = SideCounts()
    target: SideCounts = SideCounts()
    num_unencodable: int = 0
    first_unencodable: str = ""
    direction: tuple[str, ...] = ()
    cleaning: CleaningCounts = CleaningCounts()

    @property
    def num_pairs(self):
        """Number of stored pairs."""
        return sum(shard.num_pairs for shard in self.shards)

    @property
    def num_too_long(self):
        """Number of pairs skipped because a side is too long."""
        num_kept = self.num_read - self.cleaning.total
        return num_kept - self.num_pairs - self.num_unencodable

    def with_chunk(self, chunk):
        """Returns a copy with the counts of a TokenizedChunk added."""
        first = self.first_unencodable
        if chunk.unencodable and not first:
            index, reason = chunk.unencodable[0]
            first = f"line {self.num_read + index + 1:,}: {reason}"
        return dataclasses.replace(
            self,
            num_read=self.num_read + chunk.num_read,
            source=self.source + chunk.source,
            target=self.target + chunk.target,
            num_unencodable=self.num_unencodable + len(chunk.unencodable),
            first_unencodable=first,
            cleaning=self.cleaning + chunk.cleaning,
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


class PreparedCorpus:
    """A folder of prepared data, opened for training.

    `vocabulary` has the bytes of the SentencePiece model. Constructor and
    methods raise InputError if data are missing, incomplete or damaged.
    """

    def __init__(self, folder):
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
    def symbols(self):
        """SymbolVocabulary of the targets; None for text."""
        return _load_symbols(self._files)

    def pairs(self, split):
        """Returns the TokenPairs of a split, or None if it does not exist.

        "dev" has the pairs of all dev splits of a mixture.
        """
        splits = self.manifest.splits
        names = [each for each in splits if each == split]
        if split == "dev":
            names = [*filter(is_dev, splits)]
        if not names:
            return None
        shards = [shard for name in names for shard in splits[name].shards]
        return TokenPairs([read_shard(self.folder, each) for each in shards])

    def test_set(self):
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

    def validate_checksums(self):
        """Raises InputError unless all files match their checksums."""
        for split in self.manifest.splits.values():
            for shard in split.shards:
                read_shard(self.folder, shard)
                path, _ = shard.paths(self.folder)
                if zlib.crc32(path.read_bytes()) != shard.ids_crc32:
                    raise _damaged_error(path)
        self.test_set()


def is_dev(split):
    """Whether a split is dev, or of one pair of languages of a mixture."""
    return split == "dev" or split.startswith("dev-")


def write_shard(folder, name, ids, lengths):
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
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
    return shard


def read_shard(folder, shard):
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
        raise _damaged_error(ids_path)
    if (
        lengths.shape != (shard.num_pairs, 2)
        or lengths.dtype != np.uint16
        or zlib.crc32(lengths_path.read_bytes()) != shard.lengths_crc32
        or lengths.sum(dtype=np.int64) != shard.num_tokens
    ):
        raise _damaged_error(lengths_path)
    return ids, np.array(lengths)


def _memory_map(path):
    try:
        # np.load would also open archives of arrays.
        return np.lib.format.open_memmap(path, mode="r")
    # Damaged headers raise various errors, such as OverflowError.
    except Exception as error:
        raise _damaged_error(path, str(error).partition("\n")[0]) from error


def _damaged_error(path, reason="it differs from the prepared file"):
    return InputError(
        f"Cannot use {path} ({reason}); remove {path.parent} and prepare the "
        "data again."
    )


def _read_verified(path, sha256):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _damaged_error(path, error.strerror) from error
    if _sha256(content) != sha256:
        raise _damaged_error(path)
    return content


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def write_manifest(folder, manifest):
    """Writes the manifest of a folder atomically."""
    write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))


def read_manifest(folder):
    """Returns the manifest of a folder, or None; InputError if malformed."""
    path = folder / MANIFEST_FILE
    with explain_read_errors(path):
        if not path.exists():
            return None
        content = path.read_bytes()
    try:
        value = json.loads(content)
        value["source"] = _OLD_SOURCE | value["source"]
        splits = value["splits"]
        for name in splits:
            splits[name] = _OLD_SPLIT | splits[name]
        manifest = _from_json("manifest", Manifest, value)
        for split in manifest.splits.values():
            for shard in split.shards:
                # The name becomes part of a path.
                if not shard.name.replace("-", "").isalnum():
                    raise ValueError(f"{shard.name!r} is no name of a shard")
        return manifest
    # Malformed JSON and unexpected types.
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged_error(path, error) from error


def _from_json(name, annotation, value):
    """Converts a JSON value to an annotated type, or raises ValueError."""
    origin = typing.get_origin(annotation) or annotation
    expected = {tuple: list}.get(origin, origin)
    if dataclasses.is_dataclass(origin):
        expected = dict
    # isinstance would accept bool as int.
    if type(value) is not expected:
        raise ValueError(f"{name} is not of type {expected.__name__}")
    if origin is int and value < 0:
        raise ValueError(f"{name} is below 0")
    if expected is list:
        item_type = typing.get_args(annotation)[0]
        return tuple(_from_json(name, item_type, item) for item in value)
    if origin is dict:
        item_type = typing.get_args(annotation)[1]
        return {key: _from_json(key, item_type, value[key]) for key in value}
    if expected is dict:
        types = typing.get_type_hints(origin)
        return origin(
            **{key: _from_json(key, types[key], value[key]) for key in types}
        )
    return value


def read_codec_files(folder, manifest):
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


def validate_codec(folder, manifest, vocabulary, symbols):
    """Raises InputError unless the data have this vocabulary and symbols.

    None accepts any.
    """
    digest = manifest.vocabulary_sha256
    if vocabulary is not None and _sha256(vocabulary) != digest:
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
