"""Treebanks for training parsers: one bracketed tree per line.

`trees:PREFIX` reads `PREFIX.train.ptb`, `PREFIX.dev.ptb` and
`PREFIX.test.ptb`; a PREFIX that ends with "/" is a folder with `train.ptb`
and so on. Files may be compressed (`.gz`); the uncompressed file has priority.

`trees:GOLD*4,SILVER` trains on two treebanks, and four times per epoch on the
first, for semi-supervised training (section 6.3) where a parser predicted the
trees of SILVER. Dev and test belong to the first prefix.
"""

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from export.common.errors import InputError
from export.common.storage import error_reason
from export.parsing.linearization import linearize
from export.parsing.trees import format_tree, read_trees, tree_words
from trainers.data.corpus import (
    SPLITS,
    Corpus,
    file_fingerprint,
    validate_language_code,
)
from trainers.data.text_files import FilePrefix

if TYPE_CHECKING:
    from nltk.tree import Tree

LANGUAGE = "trees"


class TreeCorpus(Corpus):
    """Sentences and normalized trees; see the module docstring for the files.

    A source has the words of a sentence, and a target the symbols of its tree
    (`linearize`), separated by single spaces. References in evaluation sets are
    bracketed trees. The constructor reads the first tree of each file.
    """

    kind = "trees"

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ):
        if target_language not in (None, LANGUAGE):
            raise InputError(
                f"{dataset} holds trees, not {target_language!r}; omit "
                f"--target_language, or set it to {LANGUAGE}."
            )
        source = "en" if source_language is None else source_language
        validate_language_code(source, f"the sentences of {dataset} need one.")
        super().__init__(dataset, source, LANGUAGE)
        self._prefixes = _parse_prefixes(dataset)
        found = {split: self._find_files(split) for split in SPLITS}
        self._splits = {split: files for split, files in found.items() if files}
        if len(self._prefixes) > 1 or not self._splits:
            self._validate_split("train")
        self._pair_files: dict[str, Path] = {}
        for path in self._paths():
            if next(read_trees(path), None) is None:
                raise InputError(
                    f"{path} holds no tree; expected at least one."
                )

    def fingerprint(self) -> str:
        """Returns the `file_fingerprint` of all files."""
        return file_fingerprint(self._paths())

    def _paths(self):
        return [path for files in self._splits.values() for path, _ in files]

    def trees(self, split: str) -> "Iterator[Tree]":
        """Yields the trees of a split, normalized and repeated."""
        self._validate_split(split)
        return (
            tree
            for path, repetitions in self._splits[split]
            # Parsed once, because parsing is slower than all later steps.
            for tree in read_trees(path)
            for _ in range(repetitions)
        )

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields pairs from a temporary file, written at the first call.

        Pairs are read several times, and parsing is slow.
        """
        self._validate_split(split)
        if split not in self._pair_files:
            self._pair_files[split] = self._write_pairs(split)
        return self._read_pairs(split)

    def _write_pairs(self, split):
        try:
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder, split)
            with path.open("w", encoding="utf-8", newline="\n") as file:
                for tree in self.trees(split):
                    source = " ".join(tree_words(tree))
                    target = " ".join(linearize(tree))
                    file.write(f"{source}\t{target}\n")
        except OSError as error:
            raise InputError(
                f"Cannot write a temporary file: {error_reason(error)}; free "
                "some space, or set TMPDIR to another folder."
            ) from error
        return path

    def _read_pairs(self, split):
        path = self._pair_files[split]
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield tuple(line.removesuffix("\n").split("\t"))

    def _rows(self, split):
        for tree in self.trees(split):
            yield " ".join(tree_words(tree)), (format_tree(tree),)

    def _find_files(self, split):
        """Returns (path, repetitions) for each prefix; [] if one is missing."""
        prefixes = self._prefixes
        if split != "train":
            prefixes = [(prefixes[0][0], 1)]
        found = [(each.find(f"{split}.ptb"), times) for each, times in prefixes]
        return found if all(path for path, _ in found) else []

    def _hint(self, split):
        paths = [prefix.path(f"{split}.ptb") for prefix, _ in self._prefixes]
        expected = " and ".join(paths if split == "train" else paths[:1])
        return f"expected {expected}, plain or .gz; check the prefix"


def _parse_prefixes(dataset):
    """Returns a list of (FilePrefix, repetitions)."""
    prefixes = []
    for text in dataset.removeprefix("trees:").split(","):
        match = re.fullmatch(r"(?s)(.*?)(?:\*(\d{1,9}))?", text)
        name, repetitions = match.groups()
        if not name or repetitions == "0":
            raise InputError(
                "trees: needs a prefix, as in trees:data/craft for "
                "data/craft.train.ptb and so on, or several, as in "
                f"trees:data/gold*4,data/silver; got {text!r}."
            )
        prefixes.append((FilePrefix(name), int(repetitions or 1)))
    return prefixes
