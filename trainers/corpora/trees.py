"""Treebanks: a bracketed tree a line, to learn parsing from.

`trees:PREFIX` reads `PREFIX.train.ptb`, `PREFIX.dev.ptb` and
`PREFIX.test.ptb`; a PREFIX that ends with "/" means a folder with `train.ptb`
and so on. Each file may be packed (`.gz`); where both are there the plain one
is read.
"""

import contextlib
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nltk.tree import Tree

from export.errors import InputError
from export.parsing.linear import linearise
from export.parsing.trees import one_line, read_trees, words
from trainers.corpora.corpus import (
    Row,
    RowCorpus,
    check_code,
    file_fingerprint,
)

LANGUAGE = "trees"
_MEGABYTE = 1 << 20
_SPLITS = ("train", "dev", "test")


class TreeCorpus(RowCorpus):
    """Sentences and their trees, normalised; see the module for the files.

    The source of a pair is the sentence's words, its target the symbols of
    the tree (`export.parsing.linear`), joined by single spaces. In evaluation
    sets the target is the whole tree, in brackets on one line. Line n of a
    file is the n-th pair and the n-th sentence to evaluate on.

    The first tree of each split is read at once, the rest is checked as it is
    read. Pairs are read several times, and nltk takes its time: what was read
    to its end once is kept in a temporary file.

    Args:
        dataset: "trees:PREFIX".
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
        self._prefix = dataset.removeprefix("trees:")
        if not self._prefix:
            raise InputError(
                "trees: needs a prefix, as in trees:data/craft for the files "
                "data/craft.train.ptb, data/craft.dev.ptb and so on."
            )
        if target_language not in (None, LANGUAGE):
            raise InputError(
                f"{dataset} holds trees, not {target_language!r}; leave out "
                f"--target_language, or set it to {LANGUAGE}."
            )
        source = "en" if source_language is None else source_language
        check_code(source, f"the sentences of {dataset} need one.")
        if source == LANGUAGE:
            raise InputError(
                f"The sentences of {dataset} are in a language, such as en, "
                f"not in {LANGUAGE}; say which with --source_language."
            )
        super().__init__(dataset, source, LANGUAGE)
        found = {split: self._find(split) for split in _SPLITS}
        self._files = {
            split: path for split, path in found.items() if path is not None
        }
        if not self._files:
            raise InputError(self._absence("train"))
        self._kept: dict[str, BinaryIO] = {}
        for split, path in self._files.items():
            if next(self.trees(split), None) is None:
                raise InputError(
                    f"{path} holds no tree; at least one was expected."
                )

    def splits(self) -> tuple[str, ...]:
        """See the base class."""
        return tuple(self._files)

    def trees(self, split: str) -> Iterator[Tree]:
        """Streams the trees of a split, normalised.

        Raises:
            InputError: there is no such split, or a line is no tree.
        """
        if split not in self._files:
            raise InputError(self._absence(split))
        return read_trees(self._files[split])

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """See the base class."""
        if split in self._kept:
            return _lines_of(self._kept[split])
        return self._first_time(split, self.trees(split))

    def _first_time(
        self, split: str, trees: Iterator[Tree]
    ) -> Iterator[tuple[str, str]]:
        with contextlib.ExitStack() as stack:
            with _refusing_a_full_disk():
                file = stack.enter_context(tempfile.TemporaryFile())
            for tree in trees:
                pair = " ".join(words(tree)), " ".join(linearise(tree))
                with _refusing_a_full_disk():
                    file.write("\t".join(pair).encode() + b"\n")
                yield pair
            with _refusing_a_full_disk():
                file.flush()
            self._kept[split] = file
            weakref.finalize(self, stack.pop_all().close)

    def fingerprint(self) -> str:
        """Returns 16 hex digits over the files of all splits.

        Covers their names, sizes, and first and last MiB; see
        `file_fingerprint`.
        """
        return file_fingerprint(self._files.values())

    def _rows(self, split: str) -> Iterator[Row]:
        for tree in self.trees(split):
            yield " ".join(words(tree)), (one_line(tree),)

    def _names(self, split: str) -> tuple[str, str]:
        beginning = (
            self._prefix if self._prefix[-1] == "/" else f"{self._prefix}."
        )
        name = f"{beginning}{split}.ptb"
        return name, f"{name}.gz"

    def _find(self, split: str) -> Path | None:
        try:
            paths = [Path(name).expanduser() for name in self._names(split)]
            return next((path for path in paths if path.exists()), None)
        except (OSError, RuntimeError) as error:
            raise InputError(
                f"{self.name} leads to no files: {error}."
            ) from error

    def _absence(self, split: str) -> str:
        return (
            f"{self.name} has no {split!r} split: neither "
            f"{' nor '.join(self._names(split))} is there; check the prefix."
        )


@contextlib.contextmanager
def _refusing_a_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Cannot write a temporary file: {error.strerror}; make room, or "
            "set TMPDIR to another folder."
        ) from error


def _lines_of(file: BinaryIO) -> Iterator[tuple[str, str]]:
    # Several may read the file at once: each knows its own place.
    place = 0
    while True:
        file.seek(place)
        lines = file.readlines(_MEGABYTE)
        place = file.tell()
        if not lines:
            return
        for line in lines:
            source, target = line.decode().removesuffix("\n").split("\t")
            yield source, target
