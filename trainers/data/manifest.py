"""Manifest of prepared data: source, contents and checksums."""

import dataclasses
import hashlib
import json
import typing

from export.common.atomic_files import write_json
from export.common.errors import InputError
from trainers.data.shards import (
    NO_UNKNOWN_TOKENS,
    Shard,
    UnknownTokens,
    add_unknown_tokens,
)

MANIFEST_FILE = "manifest.json"
_FORMAT = 1
_TRAINERS = {"text": "trainers.wmt", "trees": "trainers.parsing"}
# Errors raised by JSON of any other form.
_MALFORMED = (OSError, ValueError, TypeError, KeyError, RecursionError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSource:
    """Everything that determines prepared data.

    `max_tokens` is the maximum length of a side with its end id, and
    `normalization` is one of `normalization.NORMALIZATIONS`.
    """

    dataset: str
    source_language: str
    target_language: str
    fingerprint: str
    vocabulary_size: int
    max_tokens: int
    normalization: str = "auto"


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
    except _MALFORMED as error:
        raise InputError(
            f"{path} is not a manifest of prepared data ({error}); remove "
            "the folder and prepare the data again."
        ) from error


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


def validate_vocabulary(folder, manifest, vocabulary):
    """Raises InputError unless the data have the given vocabulary."""
    if vocabulary is None:
        return
    digest = hashlib.sha256(vocabulary).hexdigest()
    if digest != manifest.vocabulary_sha256:
        raise InputError(
            f"The data in {folder} were prepared with another vocabulary than "
            "the model's; prepare them in another folder, with "
            "--vocabulary=MODEL_DIR/vocabulary.model."
        )


def validate_kind(name, kind, expected):
    """Raises InputError unless a corpus is of the expected kind."""
    if kind != expected:
        raise InputError(
            f"{name} holds {kind}, but {expected} was expected; train on it "
            f"with python -m {training_command(kind)}, or give other data."
        )


def training_command(kind):
    """Returns the command that trains on a kind of corpus."""
    return _TRAINERS[kind]
