"""What every parallel corpus offers, whatever it is read from."""

import abc
import dataclasses
import itertools
from collections.abc import Iterable, Iterator


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
    def scored(self) -> list[int]:
        """The places of those that have text on both sides."""
        return [
            place
            for place, source in enumerate(self.sources)
            if source.strip() and self.references[place]
        ]

    def only(self, places: Iterable[int]) -> "EvaluationSet":
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
    """

    attribution: str = ""
    name: str
    source_language: str
    target_language: str

    @abc.abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Returns which of "train", "dev" and "test" there are."""

    @abc.abstractmethod
    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Streams the (source, target) pairs of a split.

        Both sides are stripped and neither is empty. The order is the same
        each time. A source with several references gives a pair for each.

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
        """Returns a short hex string that changes when the data changes.

        What exactly it covers is said by each kind of corpus.
        """
