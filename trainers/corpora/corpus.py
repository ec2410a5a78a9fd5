"""What every parallel corpus offers, whatever it is read from."""

import abc
import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from export.errors import InputError
from export.files.places import readable
from export.lines.files import join_lines


def resolve_languages(
    dataset: str,
    languages: Sequence[str],
    source: str | None,
    target: str | None,
    default: tuple[str, str] | None,
) -> tuple[str, str]:
    """Returns (source language, target language).

    Where neither is given, that is `default`; where one is given and the
    corpus has just two languages, the other follows.

    Args:
        dataset: the corpus as the user named it.
        languages: the languages the corpus has.
        source: the source language asked for, if any.
        target: the target language asked for, if any.
        default: the direction meant when none is asked for, if there is one.

    Raises:
        InputError: a language that the corpus does not have, the same one
            twice, or too little to tell the direction.
    """
    if source is None and target is None and default is not None:
        return default
    possible = ", ".join(languages)
    for language in (source, target):
        if language is not None and language not in languages:
            raise InputError(
                f"{dataset} has no language {language!r}; it has {possible}."
            )
    if len(languages) == 2:
        source = source or _other(languages, target)
        target = target or _other(languages, source)
    if source is None or target is None:
        raise InputError(
            f"{dataset} needs a source and a target language "
            f"(--source_language, --target_language); it has {possible}."
        )
    validate_direction(dataset, source, target, possible)
    return source, target


def validate_direction(
    dataset: str, source: str, target: str, possible: str
) -> None:
    """Refuses a direction from a language into itself.

    Raises:
        InputError: the two are the same; the message lists `possible`.
    """
    if source == target:
        raise InputError(
            f"The source and the target language of {dataset} are both "
            f"{source!r}; choose two different ones of: {possible}."
        )


def validate_language_code(language: str, there: str) -> None:
    """Refuses what is no code of a language; it may become part of a path.

    Raises:
        InputError: it is none; the message ends with `there`.
    """
    if not re.fullmatch(r"\w[\w-]*", language):
        raise InputError(
            f"{language!r} is not a language code such as en or pt_BR; {there}"
        )


def _other(languages: Sequence[str], language: str | None) -> str | None:
    """Returns the one of two languages that `language` is not."""
    if language is None:
        return None
    return languages[1] if language == languages[0] else languages[0]


@dataclasses.dataclass(frozen=True)
class EvaluationSet:
    """Sentences to translate and what counts as right for each.

    Attributes:
        sources: the sentences to translate, in the order to report them.
        references: for each source, its right translations. A source without
            any, or without text, is translated but not scored.

    Raises:
        ValueError: the two differ in length, or a reference is blank.
    """

    sources: tuple[str, ...]
    references: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.references):
            raise ValueError(
                f"{len(self.sources)} sources but "
                f"{len(self.references)} groups of references."
            )
        # To sacreBLEU it would be a reference of length 0.
        if not all(map(str.strip, itertools.chain(*self.references))):
            raise ValueError("A reference needs text.")

    @property
    def scored_indices(self) -> list[int]:
        """The places of those that have text on both sides."""
        return [
            place
            for place, source in enumerate(self.sources)
            if source.strip() and self.references[place]
        ]

    def subset(self, places: Iterable[int]) -> "EvaluationSet":
        """Returns the sentences at these places, in this order."""
        chosen = list(places)
        return EvaluationSet(
            tuple(self.sources[place] for place in chosen),
            tuple(self.references[place] for place in chosen),
        )

    def reference_streams(self) -> list[list[str | None]]:
        """Returns the references as `sacrebleu.corpus_bleu` takes them.

        Stream i holds the i-th reference of every sentence, and None where
        a sentence has fewer: sacreBLEU leaves None out of the comparison
        and signs the score with `nrefs:var`. An empty string would not do:
        since version 2 it counts as a reference of length 0.
        """
        count = max(map(len, self.references), default=0)
        return [
            [group[i] if i < len(group) else None for group in self.references]
            for i in range(count)
        ]


class Corpus(abc.ABC):
    """Sentence pairs in one direction, in up to three splits.

    Attributes:
        name: the corpus as the user named it (`--dataset`).
        source_language: code of the language to translate from.
        target_language: code of the language to translate into.
        attribution: whom to name as the source; empty where it is unknown.
        kind: what it pairs sentences with: "text", or "trees" as lines of
            symbols.
    """

    attribution: str = ""
    kind: str = "text"
    name: str
    source_language: str
    target_language: str

    @abc.abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Returns which of "train", "dev" and "test" there are."""

    @abc.abstractmethod
    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Streams the (source, target) pairs of a split.

        Both sides are stripped, of one line, and neither is empty. The order
        is the same each time. A source with several references gives a pair
        for each.

        Raises:
            export.command.InputError: there is no such split, or what it is
                read from turns out to be broken or without any pair.
        """

    @abc.abstractmethod
    def evaluation_set(self, split: str) -> EvaluationSet:
        """Returns a split as sources with all their references.

        One for each line or example, those that `pairs` leaves out included,
        so that translations stay beside the lines of the files.

        Raises:
            export.command.InputError: as for `pairs`.
        """

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Returns a string that changes when the data changes.

        What exactly it covers is said by each kind of corpus.
        """


Row = tuple[str, tuple[str, ...]]


class RowCorpus(Corpus):
    """Makes pairs and evaluation sets out of rows.

    A subclass says which splits there are and yields their raw rows; the
    cleaning (one line each, stripped, without empty references) happens here,
    once.

    Args:
        name: the corpus as the user named it.
        source_language: code of the language to translate from.
        target_language: code of the language to translate into.
    """

    def __init__(
        self, name: str, source_language: str, target_language: str
    ) -> None:
        self.name = name
        self.source_language = source_language
        self.target_language = target_language

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """See the base class."""
        return (
            (source, reference)
            for source, references in self._clean_rows(split)
            if source
            for reference in references
        )

    def evaluation_set(self, split: str) -> EvaluationSet:
        """See the base class."""
        rows = list(self._clean_rows(split))
        return EvaluationSet(
            sources=tuple(source for source, _ in rows),
            references=tuple(references for _, references in rows),
        )

    @abc.abstractmethod
    def _rows(self, split: str) -> Iterator[Row]:
        """Yields the raw rows of a split that `splits` names."""

    def _absence(self, split: str) -> str:
        """Says, for the user, that a split is not there."""
        return (
            f"{self.name} has no {split!r} split; "
            f"it has {', '.join(self.splits())}."
        )

    def _clean_rows(self, split: str) -> Iterator[Row]:
        # Not itself a generator: a wrong name is refused at the call, not
        # at the first pair.
        if split not in self.splits():
            raise InputError(self._absence(split))
        return self._stripped(split)

    def _stripped(self, split: str) -> Iterator[Row]:
        empty = True
        for source, references in self._rows(split):
            source, *references = (
                join_lines(text).strip() for text in (source, *references)
            )
            references = tuple(filter(None, references))
            empty = empty and not (source and references)
            yield source, references
        if empty:
            raise InputError(
                f"The {split} split of {self.name} holds no sentence pair; "
                "at least one with text on both sides was expected."
            )


_DIGITS = 16
# A file in a fingerprint.
_FILE = re.compile(rf"(.+?) (\d+) ([0-9a-f]{{{_DIGITS}}})(?:; |$)")
_MEGABYTE = 1 << 20


def text_fingerprint(*parts: str) -> str:
    """Returns 16 hex digits for these strings in this order."""
    # The length in front keeps ("ab", "c") and ("a", "bc") apart.
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode()).hexdigest()[:_DIGITS]


def file_fingerprint(paths: Iterable[Path]) -> str:
    """Returns name, size and 16 hex digits of each of these files, in order.

    Covers each file's name (without its folder), its size in bytes, and the
    bytes of its first and last MiB. A change in the middle of a file larger
    than 2 MiB that leaves its size as it was is not seen.

    Raises:
        InputError: a file cannot be read.
    """
    return "; ".join(map(_describe, paths))


def describe_fingerprint_change(before: str, now: str) -> str:
    """Says which files differ between two fingerprints of one corpus."""
    old, new = (
        {name: rest for name, *rest in _FILE.findall(text)}
        for text in (before, now)
    )
    if not old or not new:
        return f"its fingerprint was {before} and is {now}"
    changes = []
    for name in {**old, **new}:
        if name not in new or name not in old:
            changes.append(f"{name} is {'gone' if name in old else 'new'}")
        elif old[name] != new[name]:
            sizes = old[name][0], new[name][0]
            other = ", of other text" if sizes[0] == sizes[1] else ""
            changes.append(
                f"{name} had {sizes[0]} bytes and has {sizes[1]}{other}"
            )
    return ", ".join(changes) or "its files come in another order"


def _describe(path: Path) -> str:
    digest = hashlib.sha256()
    with readable(path), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        digest.update(file.read(_MEGABYTE))
        file.seek(max(0, size - _MEGABYTE))
        digest.update(file.read(_MEGABYTE))
    return f"{path.name} {size} {digest.hexdigest()[:_DIGITS]}"
