"""Base class of parallel corpora, evaluation sets and fingerprints."""

import abc
import dataclasses
import hashlib
import itertools
import os
import re
import typing
from collections.abc import Iterable, Iterator, Sequence

from export.common.errors import InputError
from export.common.storage import AnyPath, explain_read_errors
from export.lines.files import clean_line

SPLITS = ("train", "dev", "test")
_HEX_DIGITS = 16
_MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """Source sentences to translate, with the references of each.

    Blank sources and those without a reference are translated but not scored.
    No reference is "", because sacreBLEU would count its length as 0.
    `directions`, of a mixture only, has (source language, target language) of
    each sentence.
    """

    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]
    directions: tuple[tuple[str, str], ...] = ()

    @property
    def scored_indices(self) -> list[int]:
        """Indices of the sentences with text on both sides."""
        return [
            index
            for index, source in enumerate(self.sources)
            if source.strip() and self.references[index]
        ]

    def subset(self, indices: Sequence[int]) -> "EvaluationSet":
        """Returns the sentences at a sequence of indices, in its order."""
        return EvaluationSet(
            tuple(self.sources[index] for index in indices),
            tuple(self.references[index] for index in indices),
            tuple(self.directions[index] for index in indices)
            if self.directions
            else (),
        )

    def by_direction(self) -> list[tuple[tuple[str, ...], "EvaluationSet"]]:
        """Returns a list of (direction, EvaluationSet); ((), self) of one."""
        if not self.directions:
            return [((), self)]
        return [
            (
                direction,
                self.subset(
                    [i for i, d in enumerate(self.directions) if d == direction]
                ),
            )
            for direction in dict.fromkeys(self.directions)
        ]

    def reference_streams(self) -> list[list[str | None]]:
        """Returns the references in the format of `sacrebleu.corpus_bleu`.

        Stream i holds reference i of every sentence, None if it has fewer.
        """
        streams = itertools.zip_longest(*self.references)
        return [list(stream) for stream in streams]


class Corpus(abc.ABC):
    """Sentence pairs for one translation direction, in up to three splits.

    Subclasses set `_splits` and yield raw rows, which this class cleans with
    `clean_line`, and without empty references. `name` is the value
    of --dataset, `attribution` a credit to print, and `kind` "text", or "trees"
    if targets are lines of symbols. `tags` are words that have a token each,
    and `num_tags` says how many of them each source has for its languages;
    `directions` has (source language, target language) of the dev splits of a
    mixture. Constructors and methods raise InputError if a language or split is
    missing, or a split is malformed or has no pair.
    """

    attribution = ""
    kind = "text"
    tags: tuple[str, ...] = ()
    num_tags = 0

    def __init__(self, name: str, source_language: str, target_language: str):
        self.name = name
        self.source_language = source_language
        self.target_language = target_language
        # Content of each available split.
        self._splits: dict[str, typing.Any] = {}
        self.directions: dict[str, tuple[str, str]] = {}

    def splits(self) -> tuple[str, ...]:
        """Returns the available `SPLITS`; of a mixture dev-1, dev-2, ..."""
        return tuple(self._splits)

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Returns a string that changes when the data changes."""

    @abc.abstractmethod
    def _rows(self, split):
        """Yields (source, tuple of references) of a split, before cleaning."""

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields (source, target) for each reference of a split, in order.

        Both sides are stripped, single-line and not empty.
        """
        self._validate_split(split)
        return (
            (source, reference)
            for source, references in self._clean_rows(split)
            if source
            for reference in references
        )

    def repeated_pairs(
        self, split: str
    ) -> Iterator[tuple[tuple[str, str], int]]:
        """Yields ((source, target), times): `pairs`, without repetitions."""
        return ((pair, 1) for pair in self.pairs(split))

    def evaluation_set(self, split: str) -> EvaluationSet:
        """Returns all rows of a split, aligned with the lines of its files."""
        self._validate_split(split)
        sources, references = zip(*self._clean_rows(split))
        return EvaluationSet(sources, references)

    def _validate_split(self, split):
        if split not in self.splits():
            raise InputError(
                f"{self.name} has no {split!r} split: {self._hint(split)}."
            )

    def _hint(self, split):
        """Returns why a split is missing."""
        return f"it has {', '.join(self.splits())}"

    def _clean_rows(self, split):
        is_empty = True
        for source, references in self._rows(split):
            source = clean_line(source)
            references = [*filter(None, map(clean_line, references))]
            is_empty = is_empty and not (source and references)
            yield source, tuple(references)
        if is_empty:
            raise InputError(
                f"The {split} split of {self.name} holds no sentence pair; "
                "expected at least one with text on both sides."
            )


def resolve_languages(
    dataset: str,
    languages: Sequence[str],
    source: str | None,
    target: str | None,
    default: tuple[str, str] | None,
) -> tuple[str, str]:
    """Returns (source language, target language), with defaults filled in.

    One of two languages implies the other; `default` applies if none is given.
    """
    if source is None and target is None and default is not None:
        return default
    available = ", ".join(languages)
    for language in (source, target):
        if language is not None and language not in languages:
            raise InputError(
                f"{dataset} has no language {language!r}; it has {available}."
            )
    if len(languages) == 2 and (source is None) != (target is None):
        other = languages[1 - languages.index(source or target)]
        source, target = source or other, target or other
    return validate_direction(dataset, source, target, available)


def validate_direction(
    dataset: str, source: str | None, target: str | None, available: str
) -> tuple[str, str]:
    """Returns (source, target), or raises InputError unless both differ.

    `available` lists languages for the messages, such as "de, en".
    """
    if source is None or target is None:
        raise InputError(
            f"{dataset} needs a source and a target language "
            f"(--source_language, --target_language); available: {available}."
        )
    if source == target:
        raise InputError(
            f"The source and the target language of {dataset} are both "
            f"{source!r}; choose two different ones of: {available}."
        )
    return source, target


def validate_language_code(language: str, hint: str) -> None:
    """Raises InputError, with `hint`, for codes unsafe in a file name."""
    if not re.fullmatch(r"\w[\w-]*", language):
        raise InputError(
            f"{language!r} is not a language code such as en or pt_BR; {hint}"
        )


def text_fingerprint(*texts: str) -> str:
    """Returns a hash of strings and their order, as 16 hex digits."""
    # The length prefix distinguishes ("ab", "c") from ("a", "bc").
    joined = "".join(f"{len(text)}:{text}" for text in texts)
    return hashlib.sha256(joined.encode()).hexdigest()[:_HEX_DIGITS]


def file_fingerprint(paths: Iterable[AnyPath]) -> str:
    """Returns name, size and 16 hex digits of a hash for each file, in order.

    Hashes only the first and the last MiB, so that huge files are fast: a
    change between them that keeps the size is not detected.
    """
    fingerprints = []
    for path in paths:
        with explain_read_errors(path), path.open("rb") as file:
            digest = hashlib.sha256(file.read(_MEBIBYTE))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MEBIBYTE))
            digest.update(file.read(_MEBIBYTE))
        fingerprints.append(
            f"{path.name} {size} {digest.hexdigest()[:_HEX_DIGITS]}"
        )
    return "; ".join(fingerprints)


def describe_fingerprint_change(before: str, now: str) -> str:
    """Returns a clause with the files in which two fingerprints differ."""
    changed = set(before.split("; ")) ^ set(now.split("; "))
    names = sorted({entry.rsplit(" ", 2)[0] for entry in changed})
    return f"its fingerprint differs in {', '.join(names)}"
