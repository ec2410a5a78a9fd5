"""Parallel text files: one sentence per line, one file per language.

`text:PREFIX` reads `PREFIX.train.en` and `PREFIX.train.de` (for en and de),
`PREFIX.dev.*` and `PREFIX.test.*`; a PREFIX that ends with "/" is a folder
with `train.en` and so on. Files may be compressed (`.gz`); the uncompressed
file has priority. `val` and `valid` replace a missing `dev`, and a single
`test*.en` replaces a missing `test.en`. `….test.de.1`, `….test.de.2` and so on
are additional references of dev and test. PREFIX may be a URL that fsspec
supports.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from export.common.errors import InputError
from export.common.paths import error_reason, is_local, list_names, resolve_path
from export.lines.files import aligned_lines
from trainers.data.corpus import (
    Corpus,
    Row,
    file_fingerprint,
    validate_direction,
    validate_language_code,
)

_SPLITS = {
    "train": ("train",),
    "dev": ("dev", "val", "valid"),
    "test": ("test",),
}


class TextCorpus(Corpus):
    """A corpus in text files; see the module docstring for their names.

    Reads the first pair of each split at once, to find most errors early.
    Raises InputError if a language is missing, no code or given twice, if there
    is no split, or if a split has only one side or no pair.
    """

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ) -> None:
        prefix = dataset.removeprefix("text:")
        if not prefix:
            raise InputError(
                "text: needs a prefix, as in text:data/wmt14 for the files "
                "data/wmt14.train.en, data/wmt14.train.de and so on."
            )
        layout = self._layout = _TextLayout(prefix)
        listed = ", ".join(layout.languages()) or "none"
        hint = f"{dataset} has training files for: {listed}."
        source, target = source_language, target_language
        if source is None or target is None:
            raise InputError(
                f"{dataset} needs a source and a target language "
                f"(--source_language, --target_language); {hint}"
            )
        for language in (source, target):
            validate_language_code(language, hint)
        validate_direction(dataset, source, target, listed)
        super().__init__(dataset, source, target)
        found = {split: layout.find(split, source, target) for split in _SPLITS}
        self._files = {split: files for split, files in found.items() if files}
        if not self._files:
            raise InputError(self._missing_split("train"))
        for split in self._files:
            next(self.pairs(split))

    def splits(self) -> tuple[str, ...]:
        """Returns the available splits."""
        return tuple(self._files)

    def fingerprint(self) -> str:
        """Returns the `file_fingerprint` of all files."""
        return file_fingerprint(
            path for files in self._files.values() for path in files
        )

    def _rows(self, split: str) -> Iterator[Row]:
        for source, *references in aligned_lines(self._files[split]):
            yield source, tuple(references)

    def _missing_split(self, split: str) -> str:
        expected = self._layout.explain_missing(
            split, self.source_language, self.target_language
        )
        return f"{self.name} has no {split!r} split: {expected}"


class _TextLayout:
    """File names that start with a prefix (path or URL)."""

    def __init__(self, prefix: str) -> None:
        try:
            path = resolve_path(prefix)
            path = path.expanduser() if is_local(path) else path
        except RuntimeError as error:
            raise InputError(
                f"text:{prefix} names no folder: {error}"
            ) from error
        is_folder = prefix.endswith("/")
        self._folder = path if is_folder else path.parent
        self._start = "" if is_folder else f"{path.name}."
        try:
            names = list_names(self._folder)
        except OSError as error:
            raise InputError(
                f"Cannot list {self._folder} ({error_reason(error)}); "
                f"expected files such as {self._path('train.en')} there."
            ) from error
        self._names = {
            name.removeprefix(self._start)
            for name in names
            if name.startswith(self._start)
        }

    def languages(self) -> list[str]:
        return self._matching(r"train\.([\w-]+)")

    def find(self, split: str, source: str, target: str) -> tuple[Path, ...]:
        """Returns the files of a split, the source first; () if none exist."""
        candidates = _SPLITS[split]
        if split == "test":
            tests = self._test_sets(source)
            candidates += tuple(tests) if len(tests) == 1 else ()
        for name in candidates:
            source_file = self._file(f"{name}.{source}")
            target_file = self._file(f"{name}.{target}")
            if source_file and target_file:
                files = source_file, target_file
                if split == "train":
                    return files
                return *files, *self._extra_references(name, target)
            if source_file or target_file:
                missing = self._path(
                    f"{name}.{target if source_file else source}"
                )
                raise InputError(
                    f"There is {source_file or target_file}, but neither "
                    f"{missing} nor {missing}.gz; both languages are needed."
                )
        return ()

    def explain_missing(self, split: str, source: str, target: str) -> str:
        """Returns which files of a split were expected, and which exist."""
        expected = ", ".join(
            f"{self._path(f'{split}.{language}')}{packing}"
            for language in (source, target)
            for packing in ("", ".gz")
        )
        return f"none of {expected} exists; {self._hint(split, source)}"

    def _hint(self, split: str, source: str) -> str:
        tests = self._test_sets(source)
        if split == "test" and len(tests) > 1:
            return (
                f"there are several others ({', '.join(tests)}), so link or "
                "rename the one to use as test."
            )
        languages = self.languages()
        if languages:
            return f"there are training files for: {', '.join(languages)}."
        folder = self._folder / self._start.removesuffix(".")
        if self._start and folder.is_dir():
            return f"for the files in that folder, write text:{folder}/."
        return "check the prefix."

    def _test_sets(self, language: str) -> list[str]:
        """Returns names such as test_2016_flickr."""
        return self._matching(rf"(test.*)\.{re.escape(language)}")

    def _extra_references(self, name: str, target: str) -> Iterator[Path]:
        """Returns the files of additional references, in numeric order."""
        base = f"{name}.{target}"
        numbers = self._matching(rf"{re.escape(base)}\.(\d+)")
        files = (
            self._file(f"{base}.{number}")
            for number in sorted(numbers, key=int)
        )
        return filter(None, files)

    def _matching(self, pattern: str) -> list[str]:
        """Returns the first group of all matching names, sorted."""
        compiled = re.compile(rf"{pattern}(?:\.gz)?")
        found = map(compiled.fullmatch, self._names)
        return sorted({match[1] for match in found if match})

    def _file(self, name: str) -> Path | None:
        for candidate in (name, f"{name}.gz"):
            if candidate in self._names:
                return self._path(candidate)
        return None

    def _path(self, name: str) -> Path:
        return self._folder / f"{self._start}{name}"
