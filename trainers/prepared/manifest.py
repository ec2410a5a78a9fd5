"""The manifest: what prepared data were made from and what they hold."""

import dataclasses
import hashlib
import json
import typing

import numpy as np

from export.errors import InputError
from export.files.atomic import written_whole
from trainers.prepared.shards import Shard, add_unknown

FILE = "manifest.json"
_FORMAT = 1
# What was added later says nothing in most manifests, and is left out there.
_NO_UNKNOWN = ((0, ""), (0, ""))
_LATER = {
    "symbols_sha256": "",
    "unseen": 0,
    "first_unseen": "",
    "unknown": _NO_UNKNOWN,
}
_TRAINERS = {"text": "trainers.wmt", "trees": "trainers.parsing"}
# What reading JSON of another form raises.
_NOT_OURS = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RecursionError,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """What prepared data are made from; other facts make other data.

    Attributes:
        dataset: name of the corpus.
        source_language: code.
        target_language: code.
        fingerprint: of the corpus, hex.
        vocabulary_size: V.
        max_tokens: pairs with a side of more pieces are left out.
        normalization: one of `normalization.NAMES`, as asked for; a
            vocabulary that was given has its own.
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
    """What there is of a split.

    Attributes:
        shards: tuple of Shard, in the corpus' order.
        source_lengths: how many sources have 0, 1, 2, ... pieces, the end id
            counted.
        target_lengths: the same of the targets.
        unseen: pairs left out because their target cannot be said in ids.
        first_unseen: where the first of these is, and why.
        unknown: as of `shards.TokenisedChunk`.
    """

    shards: tuple[Shard, ...] = ()
    source_lengths: tuple[int, ...] = ()
    target_lengths: tuple[int, ...] = ()
    unseen: int = 0
    first_unseen: str = ""
    unknown: tuple = _NO_UNKNOWN

    @property
    def pairs(self):
        """Number of pairs."""
        return sum(shard.pairs for shard in self.shards)

    @property
    def read(self):
        """Number of pairs of the corpus, those left out counted."""
        return sum(shard.read for shard in self.shards)

    @property
    def dropped(self):
        """Number of pairs left out because a side was too long."""
        return self.read - self.pairs - self.unseen

    @property
    def source_tokens(self):
        """Number of source ids, the end ids counted."""
        return _weighted(self.source_lengths)

    @property
    def target_tokens(self):
        """Number of target ids, the end ids counted."""
        return _weighted(self.target_lengths)

    def with_shard(self, shard, lengths, unseen=(), unknown=_NO_UNKNOWN):
        """Returns the split with one more shard.

        Args:
            shard: Shard.
            lengths: integers [pairs, 2], of source and target.
            unseen: of each pair left out for its target, its place among the
                pairs that were read for the shard, and why.
            unknown: of the shard, as of `shards.TokenisedChunk`.
        """
        first = self.first_unseen
        if unseen and not first:
            place, reason = unseen[0]
            first = f"line {self.read + place + 1:,}: {reason}"
        return Split(
            (*self.shards, shard),
            _add(self.source_lengths, np.bincount(lengths[:, 0])),
            _add(self.target_lengths, np.bincount(lengths[:, 1])),
            self.unseen + len(unseen),
            first,
            add_unknown(self.unknown, unknown),
        )


@dataclasses.dataclass(frozen=True)
class Manifest:
    """All facts about a folder of prepared data.

    Attributes:
        source: Source.
        vocabulary_sha256: of the SentencePiece model, hex.
        test_sha256: of the file of the test split, hex; empty where there is
            no such split.
        splits: name to Split.
        complete: whether nothing is left to prepare.
        symbols_sha256: of the file of symbols, hex; empty where the targets
            are no trees.
    """

    source: Source
    vocabulary_sha256: str
    test_sha256: str = ""
    splits: dict[str, Split] = dataclasses.field(default_factory=dict)
    complete: bool = False
    symbols_sha256: str = ""

    @property
    def kind(self):
        """Of the corpus: "text" or "trees"."""
        return "trees" if self.symbols_sha256 else "text"

    def with_split(self, name, split):
        """Returns the manifest with a split put in."""
        return dataclasses.replace(self, splits={**self.splits, name: split})


def write_manifest(folder, manifest):
    """Writes a folder's manifest whole.

    Raises:
        InputError: the system refused to write.
    """
    content = _told({"format": _FORMAT, **dataclasses.asdict(manifest)})
    for name, split in manifest.splits.items():
        # For people: they follow from the rest.
        content["splits"][name] = _told(content["splits"][name]) | {
            "pairs": split.pairs,
            "dropped": split.dropped,
            "source_tokens": split.source_tokens,
            "target_tokens": split.target_tokens,
        }
    with written_whole(folder / FILE) as temporary:
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_manifest(folder):
    """Returns a folder's manifest, or None where there is none.

    Raises:
        InputError: it cannot be read or is not one of ours.
    """
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        return Manifest(
            _read(Source, content["source"]),
            _value(content, "vocabulary_sha256", str),
            _value(content, "test_sha256", str),
            {
                name: _read_split(split)
                for name, split in content["splits"].items()
            },
            _value(content, "complete", bool),
            _value(content, "symbols_sha256", str),
        )
    except FileNotFoundError:
        return None
    except _NOT_OURS as error:
        raise InputError(
            f"{path} is not a manifest of prepared data ({error}); remove "
            "the folder and prepare the data again."
        ) from error


def validate_vocabulary(folder, manifest, vocabulary):
    """Refuses data prepared with another vocabulary than a model's.

    Args:
        folder: of the data.
        manifest: Manifest.
        vocabulary: bytes of the model's vocabulary; None where it has none.

    Raises:
        InputError: they differ.
    """
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
    """Refuses trees where text is expected, and the other way round.

    Args:
        name: of a corpus, or a folder of prepared data.
        kind: of these, "text" or "trees".
        expected: the one or the other.

    Raises:
        InputError: they differ.
    """
    if kind != expected:
        raise InputError(
            f"{name} holds {kind}, but {expected} was expected; train on it "
            f"with python -m {training_command(kind)}, or give other data."
        )


def training_command(kind):
    """Returns the command that trains on "text" or "trees"."""
    return _TRAINERS[kind]


def _told(content):
    return {
        name: value
        for name, value in content.items()
        if name not in _LATER or value != _LATER[name]
    }


def _read_split(content):
    shards = tuple(
        _read(Shard, shard) for shard in _value(content, "shards", list)
    )
    for shard in shards:
        # The name becomes a path.
        if not shard.name.replace("-", "").isalnum():
            raise ValueError(f"{shard.name!r} is no name of a shard")
    lengths = [
        _value(content, f"{side}_lengths", list)
        for side in ("source", "target")
    ]
    if not all(type(n) is int and n >= 0 for side in lengths for n in side):
        raise ValueError("a count of lengths is not a number")
    return Split(
        shards,
        *map(tuple, lengths),
        _value(content, "unseen", int),
        _value(content, "first_unseen", str),
        _read_unknown(content.get("unknown", _NO_UNKNOWN)),
    )


def _read_unknown(sides):
    (_, _), (_, _) = sides
    named = [dict(zip(("unknown", "characters"), side)) for side in sides]
    return tuple(
        (_value(side, "unknown", int), _value(side, "characters", str))
        for side in named
    )


def _read(kind, content):
    hints = typing.get_type_hints(kind).items()
    return kind(**{name: _value(content, name, each) for name, each in hints})


def _value(content, name, kind):
    value = (_LATER | content)[name]
    if type(value) is not kind:
        raise ValueError(f"{name} is not of type {kind.__name__}")
    if kind is int and value < 0:
        raise ValueError(f"{name} is below 0")
    return value


def _add(counts, more):
    total = np.zeros(max(len(counts), len(more)), np.int64)
    total[: len(counts)] += np.asarray(counts, np.int64)
    total[: len(more)] += np.asarray(more, np.int64)
    return tuple(total.tolist())


def _weighted(counts):
    return sum(length * count for length, count in enumerate(counts))
