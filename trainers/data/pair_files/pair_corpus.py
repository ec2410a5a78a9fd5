"""Corpora with both languages in one file.

`tmx:FILE`, `tsv:FILE`, `jsonl:FILE` and `parquet:FILE` train on one file, and
`tmx:PREFIX` reads `PREFIX.train.tmx`, `PREFIX.dev.tmx` (also `val`, `valid`,
`validation`) and `PREFIX.test.tmx`; a PREFIX that ends with "/" is a folder
with `train.tmx` and so on. A split may have several files, such as
`train-00000-of-00002.parquet`, and all but Parquet may be compressed (`.gz`).
`hf:NAME` and `hf:NAME:CONFIGURATION` are Hugging Face data sets or folders.

`#SOURCE,TARGET` at the end names columns, as in `tsv:corpus.tsv#1,3` and
`jsonl:corpus.jsonl#text,translation.de`; TMX has none.
"""

import functools
import pathlib
import sys
from collections.abc import Callable, Iterator

from export.common.errors import InputError
from trainers.data.corpus import (
    SPLITS,
    Corpus,
    file_fingerprint,
    validate_direction,
    validate_language_code,
)
from trainers.data.pair_files import readers
from trainers.data.pair_files.tmx import read_tmx
from trainers.data.text_files import DEV_NAMES, FilePrefix

FILE_KINDS = ("tmx", "tsv", "jsonl", "parquet")
KINDS = (*FILE_KINDS, "hf")
_READERS: dict[str, Callable[..., Iterator[readers.Row]]] = {
    "tmx": read_tmx,
    "tsv": readers.read_tsv,
    "jsonl": readers.read_jsonl,
    "parquet": readers.read_parquet,
    "hf": readers.read_hugging_face,
}


class PairCorpus(Corpus):
    """A corpus of sentence pairs; see the module docstring for its names.

    Malformed pairs are skipped, and counted on standard error with the first of
    them when a file has been read. The constructor reads the first pair of each
    split, to find errors early.
    """

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ):
        kind, _, location = dataset.partition(":")
        location, columns = _split_columns(kind, location)
        languages = validate_direction(
            dataset, source_language, target_language, "those of its pairs"
        )
        for language in languages:
            validate_language_code(language, f"{dataset} needs two.")
        super().__init__(dataset, *languages)
        self._read = functools.partial(
            _READERS[kind], languages=languages, columns=columns
        )
        self._reported: set[str] = set()
        self._hints: dict[str, str] = {}
        if kind == "hf":
            self._splits = readers.open_hugging_face(location)
            self._hints = dict.fromkeys(
                SPLITS, "expected a split train, validation or test"
            )
        else:
            prefix = FilePrefix(location)
            for split in SPLITS:
                if files := _find_files(prefix, split, kind):
                    self._splits[split] = {str(file): file for file in files}
                self._hints[split] = (
                    f"expected {prefix.path(f'{split}.{kind}')}, or the name "
                    "of a file to train on. Check the prefix, which for a "
                    'folder ends with "/"'
                )
        if not self._splits:
            self._validate_split("train")
        for split in self._splits:
            next(self.pairs(split))

    def fingerprint(self) -> str:
        """Returns the `file_fingerprint` of all files."""
        return file_fingerprint(
            path
            for parts in self._splits.values()
            for part in parts.values()
            for path in _list_files(part)
        )

    def _rows(self, split):
        for name, part in self._splits[split].items():
            skipped = readers.Skipped()
            yield from self._read(part, skip=skipped.add)
            # Files are read several times.
            if skipped.count and name not in self._reported:
                self._reported.add(name)
                print(
                    f"Skipped {skipped.count:,} malformed or incomplete pairs "
                    f"of {name}; the first:",
                    *skipped.examples,
                    sep="\n  ",
                    file=sys.stderr,
                    flush=True,
                )

    def _hint(self, split):
        return self._hints.get(split, super()._hint(split))


def _list_files(part):
    """Returns the files of a path, or of a Dataset of Hugging Face."""
    files = getattr(part, "cache_files", None)
    if files is None:
        return [part]
    return [pathlib.Path(file["filename"]) for file in files]


def _split_columns(kind, location):
    """Returns (location, None or the columns of source and target)."""
    start, mark, end = location.rpartition("#")
    columns = None
    # A path may have the mark, too.
    if mark and kind != "tmx" and "/" not in end:
        location, columns = start, tuple(end.split(","))
    if not location or (columns and (len(columns) != 2 or not all(columns))):
        raise InputError(
            "Expected a data set such as tmx:data/corpus.tmx, or with the "
            "columns of source and target tsv:data/corpus.tsv#1,2, got "
            f"{kind}:{location}{mark}{end}."
        )
    return location, columns


def _find_files(prefix, split, ending):
    """Returns the files of a split, [] if none exist."""
    if prefix.file:
        return [prefix.file] if split == "train" else []
    for name in (*DEV_NAMES, "validation") if split == "dev" else (split,):
        shards = prefix.match_names(rf"({name}-\d+-of-\d+\.{ending})")
        for names in ([f"{name}.{ending}"], shards):
            if files := [*filter(None, map(prefix.find, names))]:
                return files
    return []
