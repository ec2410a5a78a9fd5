"""Parallel text files: one sentence a line, one file a language.

`text:PREFIX` reads `PREFIX.train.en` and `PREFIX.train.de` (for en and de),
`PREFIX.dev.*` and `PREFIX.test.*`; a PREFIX that ends with "/" means a folder
with `train.en` and so on. Each file may be packed (`.gz`); where both are
there the plain one is read. `val` and `valid` stand for `dev` where there is
no `dev`, and where there is no `test.en`, the only file `test*.en` is taken.
More references of dev and test are `….test.de.1`, `….test.de.2` and so on,
beside `….test.de`. PREFIX may be a URL that fsspec opens.
"""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from export.errors import InputError
from export.files.places import is_here, names_in, place_of, reason
from export.lines.files import aligned_lines
from trainers.corpora.corpus import (
    Row,
    RowCorpus,
    file_fingerprint,
    validate_direction,
    validate_language_code,
)

SPLITS = {
    "train": ("train",),
    "dev": ("dev", "val", "valid"),
    "test": ("test",),
}


@dataclasses.dataclass(frozen=True)
class SplitFiles:
    """The files of one split: line n of each is the same sentence.

    Attributes:
        source: the sentences to translate.
        references: files of right translations, at least one.
    """

    source: Path
    references: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files, the source first."""
        return self.source, *self.references


class TextLayout:
    """The names of the files that begin with a prefix.

    Args:
        prefix: a path or a URL; the names go on with ".train.en" and so on,
            or with "train.en" where the prefix ends with "/".

    Raises:
        InputError: the folder that the prefix lies in cannot be listed, or
            "~" names nobody.
    """

    def __init__(self, prefix: str) -> None:
        try:
            path = place_of(prefix)
            path = path.expanduser() if is_here(path) else path
        except RuntimeError as error:
            raise InputError(
                f"text:{prefix} names no folder: {error}"
            ) from error
        whole_folder = prefix.endswith("/")
        self._folder = path if whole_folder else path.parent
        self._start = "" if whole_folder else f"{path.name}."
        self._names = self._list()

    def languages(self) -> list[str]:
        """Returns the languages that there are training files for."""
        found = (
            re.fullmatch(r"train\.([\w-]+)(\.gz)?", n) for n in self._names
        )
        return sorted({match[1] for match in found if match})

    def find(self, split: str, source: str, target: str) -> SplitFiles | None:
        """Returns the files of a split, or None where there are none.

        Args:
            split: "train", "dev" or "test".
            source: language of the source.
            target: language of the references.

        Raises:
            InputError: one language is there without the other.
        """
        for name in self._candidates(split, source):
            source_file = self._file(f"{name}.{source}")
            target_file = self._file(f"{name}.{target}")
            if source_file is not None and target_file is not None:
                more = () if split == "train" else self._more(name, target)
                return SplitFiles(source_file, (target_file, *more))
            if source_file is not None or target_file is not None:
                missing = self._shown(
                    f"{name}.", target if source_file else source
                )
                raise InputError(
                    f"{source_file or target_file} is there, but neither "
                    f"{missing} nor {missing}.gz is; both languages are "
                    "needed."
                )
        return None

    def explain_absence(self, split: str, source: str, target: str) -> str:
        """Says which files of a split were looked for, and what is there."""
        looked_for = ", ".join(
            self._shown(f"{split}.", language) + packing
            for language in (source, target)
            for packing in ("", ".gz")
        )
        return f"none of {looked_for} is there; {self._hint(split, source)}"

    def _list(self) -> frozenset[str]:
        try:
            names = names_in(self._folder)
        except OSError as error:
            raise InputError(
                f"Cannot list {self._folder} ({reason(error)}); files such "
                f"as {self._shown('train.', 'en')} were expected there."
            ) from error
        return frozenset(
            name.removeprefix(self._start)
            for name in names
            if name.startswith(self._start)
        )

    def _hint(self, split: str, source: str) -> str:
        tests = self._tests(source)
        if split == "test" and len(tests) > 1:
            return (
                f"there are several others ({', '.join(tests)}), so link or "
                "rename the one to use as test."
            )
        languages = self.languages()
        if languages:
            return f"train is there for: {', '.join(languages)}."
        folder = self._folder / self._start.removesuffix(".")
        if self._start and folder.is_dir():
            return f"for the files in that folder, write text:{folder}/."
        return "check the prefix."

    def _candidates(self, split: str, source: str) -> tuple[str, ...]:
        if split != "test":
            return SPLITS[split]
        tests = self._tests(source)
        return ("test", *tests) if len(tests) == 1 else ("test",)

    def _tests(self, language: str) -> list[str]:
        """Returns the names such as test_2016_flickr, of any test files."""
        pattern = re.compile(rf"(test.*)\.{re.escape(language)}(\.gz)?")
        found = map(pattern.fullmatch, self._names)
        return sorted({match[1] for match in found if match})

    def _more(self, name: str, target: str) -> tuple[Path, ...]:
        """Returns the references beside the first, by their numbers."""
        base = f"{name}.{target}"
        pattern = re.compile(rf"{re.escape(base)}\.(\d+)(\.gz)?")
        found = map(pattern.fullmatch, self._names)
        numbers = sorted({match[1] for match in found if match}, key=int)
        files = (self._file(f"{base}.{number}") for number in numbers)
        return tuple(file for file in files if file is not None)

    def _file(self, name: str) -> Path | None:
        for candidate in (name, f"{name}.gz"):
            if candidate in self._names:
                return self._folder / f"{self._start}{candidate}"
        return None

    def _shown(self, beginning: str, language: str) -> str:
        return str(self._folder / f"{self._start}{beginning}{language}")


class TextCorpus(RowCorpus):
    """A corpus in plain text files; see the module for their names.

    A split whose files are not there is one that the corpus lacks. The first
    pair of each split is read at once, so that most of what may be wrong
    with the files is found before any work begins; the rest of them is
    checked as it is read.

    Args:
        dataset: "text:PREFIX".
        source_language: code that ends the source files' names.
        target_language: code that ends the target files' names.

    Raises:
        InputError: a language is missing, not a code or there twice; no
            split is there; only one side of one is; or one holds no pair.
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
        self._layout = TextLayout(prefix)
        source, target = _check_languages(
            dataset, source_language, target_language, self._layout.languages()
        )
        super().__init__(dataset, source, target)
        found = {
            split: self._layout.find(split, source, target) for split in SPLITS
        }
        self._files = {
            split: files for split, files in found.items() if files is not None
        }
        if not self._files:
            raise InputError(self._absence("train"))
        for split in self._files:
            next(self.pairs(split))

    def splits(self) -> tuple[str, ...]:
        """See the base class."""
        return tuple(self._files)

    def fingerprint(self) -> str:
        """Returns `file_fingerprint` of the files of all splits, in order.

        The source language comes first.
        """
        return file_fingerprint(
            path for files in self._files.values() for path in files.paths
        )

    def _rows(self, split: str) -> Iterator[Row]:
        for source, *references in aligned_lines(self._files[split].paths):
            yield source, tuple(references)

    def _absence(self, split: str) -> str:
        reason = self._layout.explain_absence(
            split, self.source_language, self.target_language
        )
        return f"{self.name} has no {split!r} split: {reason}"


def _check_languages(
    dataset: str, source: str | None, target: str | None, there: list[str]
) -> tuple[str, str]:
    possible = ", ".join(there) or "none found"
    if source is None or target is None:
        raise InputError(
            f"{dataset} needs a source and a target language "
            "(--source_language, --target_language); its training files are "
            f"for: {possible}."
        )
    for language in (source, target):
        validate_language_code(
            language, f"the training files of {dataset} are for: {possible}."
        )
    validate_direction(dataset, source, target, possible)
    return source, target
