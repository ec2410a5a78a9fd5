"""Treebanks: a bracketed tree a line, to learn parsing from.

`trees:PREFIX` reads `PREFIX.train.ptb`, `PREFIX.dev.ptb` and
`PREFIX.test.ptb`; a PREFIX that ends with "/" means a folder with `train.ptb`
and so on. Each file may be packed (`.gz`); where both are there the plain one
is read.
"""

from collections.abc import Iterator
from pathlib import Path

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
_SPLITS = ("train", "dev", "test")


class TreeCorpus(RowCorpus):
    """Sentences and their trees, normalised; see the module for the files.

    The source of a pair is the sentence's words, its target the symbols of
    the tree (`export.parsing.linear`), joined by single spaces. In evaluation
    sets the target is the whole tree, in brackets on one line. Line n of a
    file is the n-th pair and the n-th sentence to evaluate on.

    The first tree of each split is read at once, the rest is checked as it is
    read.

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
        return (
            (" ".join(words(tree)), " ".join(linearise(tree)))
            for tree in self.trees(split)
        )

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
