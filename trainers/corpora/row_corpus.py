"""A corpus that is read as rows: a source and its references."""

import abc
from collections.abc import Iterator

from export.command import InputError
from trainers.corpora.corpus import Corpus, EvaluationSet

Row = tuple[str, tuple[str, ...]]


class RowCorpus(Corpus):
    """Makes pairs and evaluation sets out of rows.

    A subclass says which splits there are and yields their raw rows; the
    cleaning (stripping, leaving out empty references) happens here, once.

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
            source = source.strip()
            references = tuple(filter(None, map(str.strip, references)))
            empty = empty and not (source and references)
            yield source, references
        if empty:
            raise InputError(
                f"The {split} split of {self.name} holds no sentence pair; "
                "at least one with text on both sides was expected."
            )
