"""Treebanks: a bracketed tree a line, to learn parsing from.

`trees:PREFIX` reads `PREFIX.train.ptb`, `PREFIX.dev.ptb` and
`PREFIX.test.ptb`; a PREFIX that ends with "/" means a folder with `train.ptb`
and so on. Each file may be packed (`.gz`); where both are there the plain one
is read.

`trees:GOLD*4,SILVER` trains on the trees of several prefixes, those of the
first four times in an epoch: semi-supervised, as the paper's second parser
(section 6.3), where SILVER are trees that a parser made. Dev and test are the
first's. A text that files begin with is one prefix, whatever is in it.
"""

import functools
import itertools
import re
import typing
from collections.abc import Iterator
from pathlib import Path

from nltk.tree import Tree

from export.errors import InputError
from export.parsing.linear import linearise
from export.parsing.trees import one_line, read_trees, words
from trainers.corpora.corpus import (
    Row,
    RowCorpus,
    file_fingerprint,
    validate_language_code,
)
from trainers.corpora.kept_pairs import KeptPairs

LANGUAGE = "trees"
_SPLITS = ("train", "dev", "test")


class _Part(typing.NamedTuple):
    """The trees of a prefix, and how often each comes in an epoch."""

    prefix: str
    times: int

    def names(self, split: str) -> tuple[str, str]:
        """The files that a split may be read from."""
        beginning = self.prefix if self.prefix[-1] == "/" else f"{self.prefix}."
        name = f"{beginning}{split}.ptb"
        return name, f"{name}.gz"

    def find(self, split: str) -> Path | None:
        """The first of these that is there."""
        try:
            paths = [Path(name).expanduser() for name in self.names(split)]
            return next((path for path in paths if path.exists()), None)
        except (OSError, RuntimeError) as error:
            raise InputError(
                f"trees:{self.prefix} leads to no files: {error}."
            ) from error


def _parts(dataset: str) -> list[_Part]:
    whole = _Part(dataset.removeprefix("trees:"), 1)
    # A path may have a comma, or end like a number of times.
    if whole.prefix and any(map(whole.find, _SPLITS)):
        return [whole]
    parts = []
    for text in whole.prefix.split(","):
        prefix, times = re.fullmatch(r"(.*?)(?:\*(\d{1,9}))?", text).groups()
        if not prefix or times == "0":
            raise InputError(
                "trees: needs a prefix, as in trees:data/craft for the files "
                "data/craft.train.ptb, data/craft.dev.ptb and so on, or "
                "several, as in trees:data/gold*4,data/silver; "
                f"{text!r} is none."
            )
        parts.append(_Part(prefix, int(times or 1)))
    return parts


class TreeCorpus(RowCorpus):
    """Sentences and their trees, normalised; see the module for the files.

    The source of a pair is the sentence's words, its target the symbols of
    the tree (`export.parsing.linear`), joined by single spaces. In evaluation
    sets the target is the whole tree, in brackets on one line. Line n of a
    file is the n-th pair and the n-th sentence to evaluate on.

    The first tree of each split is read at once, the rest is checked as it is
    read. Pairs are read several times, and nltk takes its time: see
    `KeptPairs`.

    Args:
        dataset: "trees:PREFIX", or several prefixes; see the module.
        source_language: code of the sentences' language; None for English.
        target_language: "trees" or None.

    Raises:
        InputError: a language is no code or the target is not trees; no split
            is there; or one holds no tree.
    """

    kind = "trees"

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ) -> None:
        self._parts = _parts(dataset)
        if target_language not in (None, LANGUAGE):
            raise InputError(
                f"{dataset} holds trees, not {target_language!r}; leave out "
                f"--target_language, or set it to {LANGUAGE}."
            )
        source = "en" if source_language is None else source_language
        validate_language_code(source, f"the sentences of {dataset} need one.")
        if source == LANGUAGE:
            raise InputError(
                f"The sentences of {dataset} are in a language, such as en, "
                f"not in {LANGUAGE}; say which with --source_language."
            )
        super().__init__(dataset, source, LANGUAGE)
        self._files = self._found()
        self._pairs = {
            split: KeptPairs(functools.partial(self._made_pairs, split))
            for split in self._files
        }
        for split in self._files:
            for path, _ in self._files[split]:
                if next(read_trees(path), None) is None:
                    raise InputError(
                        f"{path} holds no tree; at least one was expected."
                    )

    def splits(self) -> tuple[str, ...]:
        """See the base class."""
        return tuple(self._files)

    def trees(self, split: str) -> Iterator[Tree]:
        """Streams the trees of a split, normalised, each as often as it counts.

        Raises:
            InputError: there is no such split, or a line is no tree.
        """
        if split not in self._files:
            raise InputError(self._absence(split))
        return itertools.chain.from_iterable(
            _repeated(read_trees(path), times)
            for path, times in self._files[split]
        )

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """See the base class."""
        if split not in self._files:
            raise InputError(self._absence(split))
        return self._pairs[split].read()

    def _made_pairs(self, split: str) -> Iterator[tuple[str, str]]:
        for tree in self.trees(split):
            yield " ".join(words(tree)), " ".join(linearise(tree))

    def fingerprint(self) -> str:
        """Returns `file_fingerprint` of the files of all splits."""
        files = itertools.chain.from_iterable(self._files.values())
        return file_fingerprint(path for path, _ in files)

    def _rows(self, split: str) -> Iterator[Row]:
        for tree in self.trees(split):
            yield " ".join(words(tree)), (one_line(tree),)

    def _found(self) -> dict[str, list[tuple[Path, int]]]:
        """Returns the files of each split that is there."""
        first, *others = self._parts
        found = {}
        for split in _SPLITS:
            path = first.find(split)
            if path is not None:
                found[split] = [(path, first.times if split == "train" else 1)]
        if not found or others and "train" not in found:
            raise InputError(self._absence("train"))
        for other in others:
            path = other.find("train")
            if path is None:
                raise InputError(
                    f"{self.name} has no trees of {other.prefix}: neither "
                    f"{' nor '.join(other.names('train'))} is there; check "
                    "the prefix."
                )
            found["train"].append((path, other.times))
        return found

    def _absence(self, split: str) -> str:
        return (
            f"{self.name} has no {split!r} split: neither "
            f"{' nor '.join(self._parts[0].names(split))} is there; check "
            "the prefix."
        )


def _repeated(trees: Iterator[Tree], times: int) -> Iterator[Tree]:
    # Read once: reading takes longer than anything that follows.
    for tree in trees:
        yield from itertools.repeat(tree, times)
