"""Treebanks for training parsers: one bracketed tree per line.

`trees:PREFIX` reads `PREFIX.train.ptb`, `PREFIX.dev.ptb` and
`PREFIX.test.ptb`; a PREFIX that ends with "/" is a folder with `train.ptb`
and so on. Files may be compressed (`.gz`); the uncompressed file has priority.

`trees:GOLD*4,SILVER` trains on several treebanks and repeats the first one four
times per epoch, for semi-supervised training (section 6.3) where a parser
predicted the trees of SILVER. Dev and test belong to the first prefix. If
files start with the whole text, it is a single prefix, whatever it contains.
"""

import contextlib
import itertools
import re
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nltk.tree import Tree

from export.common.errors import InputError
from export.common.paths import error_reason
from export.parsing.linearization import linearize
from export.parsing.trees import format_tree, read_trees, tree_words
from trainers.data.corpus import (
    Corpus,
    Row,
    file_fingerprint,
    validate_language_code,
)

LANGUAGE = "trees"
_SPLITS = ("train", "dev", "test")
_MEGABYTE = 1 << 20


class TreeCorpus(Corpus):
    """Sentences and normalized trees; see the module docstring for the files.

    The source of a pair is the words of the sentence, its target the symbols
    of the tree (`linearize`), joined by single spaces. In evaluation sets, the
    target is the bracketed tree on one line. Line n of a file is pair n and
    sentence n of the evaluation set. Checks the first tree of each file at
    once, the others when they are read. Raises InputError for an invalid
    language code, a target other than trees, and a missing split or tree.
    """

    kind = "trees"

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ) -> None:
        self._prefixes = _parse_prefixes(dataset)
        if target_language not in (None, LANGUAGE):
            raise InputError(
                f"{dataset} holds trees, not {target_language!r}; omit "
                f"--target_language, or set it to {LANGUAGE}."
            )
        source = "en" if source_language is None else source_language
        validate_language_code(source, f"the sentences of {dataset} need one.")
        if source == LANGUAGE:
            raise InputError(
                f"The sentences of {dataset} are in a language such as en, "
                f"not in {LANGUAGE}; set --source_language."
            )
        super().__init__(dataset, source, LANGUAGE)
        self._files = self._find_files()
        self._pair_files: dict[str, IO[bytes]] = {}
        for path in self._paths():
            if next(read_trees(path), None) is None:
                raise InputError(
                    f"{path} holds no tree; expected at least one."
                )

    def splits(self) -> tuple[str, ...]:
        """Returns the available splits."""
        return tuple(self._files)

    def fingerprint(self) -> str:
        """Returns the `file_fingerprint` of all files."""
        return file_fingerprint(self._paths())

    def _paths(self) -> Iterator[Path]:
        files = itertools.chain.from_iterable(self._files.values())
        return (path for path, _ in files)

    def trees(self, split: str) -> Iterator[Tree]:
        """Yields the trees of a split, normalized and repeated."""
        self._validate_split(split)
        return (
            tree
            for path, times in self._files[split]
            # Parsed once, because parsing is slower than all later steps.
            for tree in read_trees(path)
            for _ in range(times)
        )

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields pairs from a temporary file, written at the first call.

        Pairs are read several times, and parsing is slow.
        """
        self._validate_split(split)
        if split not in self._pair_files:
            self._pair_files[split] = self._write_pairs(split)
        return self._read_pairs(self._pair_files[split])

    def _write_pairs(self, split: str) -> IO[bytes]:
        try:
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(tempfile.TemporaryFile())
                for tree in self.trees(split):
                    source, target = " ".join(tree_words(tree)), linearize(tree)
                    file.write(f"{source}\t{' '.join(target)}\n".encode())
                file.flush()
                weakref.finalize(self, stack.pop_all().close)
        except OSError as error:
            raise InputError(
                f"Cannot write a temporary file: {error_reason(error)}; free "
                "some space, or set TMPDIR to another folder."
            ) from error
        return file

    def _read_pairs(self, file: IO[bytes]) -> Iterator[tuple[str, str]]:
        # Several readers may share the file.
        position = 0
        while True:
            file.seek(position)
            lines = file.readlines(_MEGABYTE)
            position = file.tell()
            if not lines:
                return
            for line in lines:
                source, target = line.decode().removesuffix("\n").split("\t")
                yield source, target

    def _rows(self, split: str) -> Iterator[Row]:
        for tree in self.trees(split):
            yield " ".join(tree_words(tree)), (format_tree(tree),)

    def _find_files(self) -> dict[str, list[tuple[Path, int]]]:
        """Returns the (path, repetitions) of each split's files."""
        (first, times), *others = self._prefixes
        files = {}
        for split in _SPLITS:
            path = _find(first, split)
            if path is not None:
                files[split] = [(path, times if split == "train" else 1)]
        if not files or others and "train" not in files:
            raise InputError(self._missing_split("train"))
        for prefix, times in others:
            path = _find(prefix, "train")
            if path is None:
                raise InputError(
                    f"{self.name} has no trees of {prefix}: there is neither "
                    f"{' nor '.join(_names(prefix, 'train'))}; check the "
                    "prefix."
                )
            files["train"].append((path, times))
        return files

    def _missing_split(self, split: str) -> str:
        first, _ = self._prefixes[0]
        return (
            f"{self.name} has no {split!r} split: there is neither "
            f"{' nor '.join(_names(first, split))}; check the prefix."
        )


def _parse_prefixes(dataset: str) -> list[tuple[str, int]]:
    """Returns a list of (prefix, repetitions)."""
    text = dataset.removeprefix("trees:")
    # A path may contain a comma or end with "*4".
    if text and any(_find(text, split) for split in _SPLITS):
        return [(text, 1)]
    prefixes = []
    for part in text.split(","):
        prefix, times = re.fullmatch(r"(.*?)(?:\*(\d{1,9}))?", part).groups()
        if not prefix or times == "0":
            raise InputError(
                "trees: needs a prefix, as in trees:data/craft for the files "
                "data/craft.train.ptb, data/craft.dev.ptb and so on, or "
                "several, as in trees:data/gold*4,data/silver; "
                f"got {part!r}."
            )
        prefixes.append((prefix, int(times or 1)))
    return prefixes


def _names(prefix: str, split: str) -> tuple[str, str]:
    beginning = prefix if prefix[-1] == "/" else f"{prefix}."
    return f"{beginning}{split}.ptb", f"{beginning}{split}.ptb.gz"


def _find(prefix: str, split: str) -> Path | None:
    """Returns the existing file of a split, or None."""
    try:
        paths = [Path(name).expanduser() for name in _names(prefix, split)]
        return next((path for path in paths if path.exists()), None)
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"trees:{prefix} leads to no files: {error}."
        ) from error
