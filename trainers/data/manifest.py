"""The manifest of prepared data: what they were made of, and their counts."""

import collections
import dataclasses
import json
import pathlib
import typing
from collections.abc import Iterable

from export.common.errors import InputError
from export.common.storage import explain_read_errors, write_json
from trainers.data.removed_pairs import merge_samples

if typing.TYPE_CHECKING:
    from trainers.data.tokenization import TokenizedChunk

MANIFEST_FILE = "manifest.json"
# Number of unknown characters that are stored and printed.
NUM_EXAMPLES = 8

# The choices of a DataSource that remove training pairs.
CLEANING_CHOICES = (
    *("max_ratio", "drop_duplicates", "drop_near_duplicates"),
    *("check_languages", "filters"),
)
SCORE_CHOICES = ("pair_scores", "keep_share")
# Older trainings lack these.
NEW_CHOICES = (
    *("copy_rate", "noise", "segmentations", *CLEANING_CHOICES),
    *SCORE_CHOICES,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSource:
    """Everything that determines prepared data.

    `max_tokens` is the maximum length of a side, the end id included. No
    `max_ratio` is 0. For `noise` see `parse_noise`, for `filters`
    `parse_filters`. `pair_scores` is the digest of a file of
    `trainers.score_pairs`, and `keep_share` the share of the best pairs.
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
    noise: str = "off"
    segmentations: int = 1
    max_ratio: float = 0.0
    drop_duplicates: bool = False
    drop_near_duplicates: bool = False
    check_languages: bool = False
    filters: str = "off"
    pair_scores: str = ""
    keep_share: float = 1.0

    @property
    def languages(self) -> tuple[str, ...]:
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

    def paths(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Returns the paths of the ids and of the lengths."""
        return [folder / f"{self.name}.{n}.npy" for n in ("ids", "lengths")]


@dataclasses.dataclass(frozen=True)
class SideCounts:
    """Token counts of the source or target, and some unknown characters."""

    num_tokens: int = 0
    num_unknown: int = 0
    unknown_characters: str = ""

    def __add__(self, other: "SideCounts") -> "SideCounts":
        characters = self.unknown_characters + other.unknown_characters
        return SideCounts(
            self.num_tokens + other.num_tokens,
            self.num_unknown + other.num_unknown,
            "".join(dict.fromkeys(characters))[:NUM_EXAMPLES],
        )


@dataclasses.dataclass(frozen=True)
class CleaningCounts:
    """Numbers of pairs that each cleaning rule has removed.

    `filters` has those of each of `FILTERS`, and `examples` a sample of the
    pairs of each rule, see `sample_pairs`.
    """

    duplicate: int = 0
    language: int = 0
    ratio: int = 0
    filters: dict[str, int] = dataclasses.field(default_factory=dict)
    score: int = 0
    examples: dict[str, tuple[tuple[str, ...], ...]] = dataclasses.field(
        default_factory=dict
    )

    def __add__(self, other: "CleaningCounts") -> "CleaningCounts":
        filters = collections.Counter(self.filters)
        filters.update(other.filters)
        return CleaningCounts(
            self.duplicate + other.duplicate,
            self.language + other.language,
            self.ratio + other.ratio,
            dict(filters),
            self.score + other.score,
            {
                rule: merge_samples(
                    self.examples.get(rule, ()), other.examples.get(rule, ())
                )
                for rule in {**self.examples, **other.examples}
            },
        )

    def by_rule(self) -> dict[str, int]:
        """Returns the number of pairs of each rule that removed any."""
        names = "duplicate", "language", "ratio", "score"
        counts = {name: getattr(self, name) for name in names} | self.filters
        return {name: count for name, count in counts.items() if count}

    @property
    def total(self) -> int:
        """Number of pairs that were removed."""
        return sum(self.by_rule().values())


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Number of pairs of an evaluation split, and of those that train has.

    `sources` counts those of which train has the source, with any target.
    """

    total: int
    sources: int
    pairs: int


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
    def num_pairs(self) -> int:
        """Number of stored pairs."""
        return sum(shard.num_pairs for shard in self.shards)

    @property
    def num_too_long(self) -> int:
        """Number of pairs skipped because a side is too long."""
        num_kept = self.num_read - self.cleaning.total
        return num_kept - self.num_pairs - self.num_unencodable

    def with_chunk(self, chunk: "TokenizedChunk") -> "Split":
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
    overlaps: dict[str, Overlap] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Kind of the corpus, "text" or "trees"."""
        return "trees" if self.symbols_sha256 else "text"

    def print_overlaps(self) -> None:
        """Prints a warning for each evaluation split that is in train."""
        for name, overlap in self.overlaps.items():
            if overlap.sources:
                print(
                    f"Warning: train has the sources of {overlap.sources:,} of "
                    f"the {overlap.total:,} pairs of {name}, {overlap.pairs:,} "
                    "of them with the same target: scores on these are too "
                    "good. Remove them from train.",
                    flush=True,
                )


def is_dev(split: str) -> bool:
    """Whether a split is dev, or of one pair of languages of a mixture."""
    return split == "dev" or split.startswith("dev-")


def write_manifest(folder: pathlib.Path, manifest: Manifest) -> None:
    """Writes the manifest of a folder atomically."""
    write_json(folder / MANIFEST_FILE, dataclasses.asdict(manifest))


def read_manifest(folder: pathlib.Path) -> Manifest | None:
    """Returns the manifest of a folder, or None; InputError if malformed."""
    path = folder / MANIFEST_FILE
    with explain_read_errors(path):
        if not path.exists():
            return None
        content = path.read_bytes()
    try:
        manifest = _from_json("manifest", Manifest, json.loads(content))
        for split in manifest.splits.values():
            for shard in split.shards:
                # The name becomes part of a path.
                if not shard.name.replace("-", "").isalnum():
                    raise ValueError(f"{shard.name!r} is no name of a shard")
        return manifest
    # Malformed JSON, unexpected types and missing fields.
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged_error(path, error) from error


def default_choices(names: Iterable[str]) -> dict[str, typing.Any]:
    """Returns the default values of fields of a DataSource."""
    return {name: getattr(DataSource, name) for name in names}


def _from_json(name, annotation, value):
    """Converts a JSON value to an annotated type, or raises ValueError.

    Older manifests lack fields, which get their defaults.
    """
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
        return origin(
            **{
                key: _from_json(key, field_type, value[key])
                for key, field_type in typing.get_type_hints(origin).items()
                if key in value
            }
        )
    return value


def damaged_error(
    path: pathlib.Path, reason: object = "it differs from the prepared file"
) -> InputError:
    """Returns the InputError for a file of prepared data."""
    return InputError(
        f"Cannot use {path} ({reason}); remove {path.parent} and prepare the "
        "data again."
    )
