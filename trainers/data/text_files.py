"""Parallel text files: one sentence per line, one file per language.

`text:PREFIX` reads `PREFIX.train.en` and `PREFIX.train.de` (for en and de),
`PREFIX.dev.*` and `PREFIX.test.*`; a PREFIX that ends with "/" is a folder
with `train.en` and so on. Files may be compressed (`.gz`); the uncompressed
file has priority. `val` and `valid` replace a missing `dev`, and a single
`test*.en` replaces a missing `test.en`. `….test.de.1`, `….test.de.2` and so on
are additional references of dev and test. PREFIX may be a URL that fsspec
supports.
"""

import itertools
import re

from export.common.errors import InputError
from export.common.storage import (
    AnyPath,
    error_reason,
    is_local,
    list_names,
    resolve_path,
)
from export.lines.files import aligned_lines, read_lines
from trainers.data.corpus import (
    SPLITS,
    Corpus,
    file_fingerprint,
    validate_direction,
    validate_language_code,
)

DEV_NAMES = ("dev", "val", "valid")


class TextCorpus(Corpus):
    """A corpus in text files; see the module docstring for their names.

    The constructor reads the first pair of each split, to find errors early.
    """

    def __init__(
        self,
        dataset: str,
        source_language: str | None,
        target_language: str | None,
    ):
        prefix = dataset.removeprefix("text:")
        if not prefix:
            raise InputError(
                "text: needs a prefix, as in text:data/wmt14 for the files "
                "data/wmt14.train.en, data/wmt14.train.de and so on."
            )
        self._prefix = FilePrefix(prefix)
        available = self._prefix.languages() or "no training files"
        languages = validate_direction(
            dataset, source_language, target_language, available
        )
        for language in languages:
            validate_language_code(language, f"{dataset} has {available}.")
        super().__init__(dataset, *languages)
        found = {split: self._find_files(split) for split in SPLITS}
        self._splits = {split: files for split, files in found.items() if files}
        if not self._splits:
            self._validate_split("train")
        for split, files in self._splits.items():
            for path in files:
                _validate_line_ends(path)
            next(self.pairs(split))

    def fingerprint(self) -> str:
        """Returns the `file_fingerprint` of all files."""
        return file_fingerprint(
            path for files in self._splits.values() for path in files
        )

    def _rows(self, split):
        for source, *references in aligned_lines(self._splits[split]):
            yield source, tuple(references)

    def _find_files(self, split):
        """Returns the files of a split, the source first; () if none exist."""
        names = DEV_NAMES if split == "dev" else (split,)
        if split == "test" and len(self._test_sets()) == 1:
            names += tuple(self._test_sets())
        for name in names:
            source = f"{name}.{self.source_language}"
            target = f"{name}.{self.target_language}"
            files = [*filter(None, map(self._prefix.find, (source, target)))]
            if len(files) == 1:
                raise InputError(
                    f"There is only {files[0]} of {self._prefix.path(source)} "
                    f"and {self._prefix.path(target)}, plain or .gz; both are "
                    "needed."
                )
            if files:
                if split != "train":
                    files += self._prefix.find_numbered(target)
                return tuple(files)
        return ()

    def _test_sets(self):
        """Returns names such as test_2016_flickr."""
        language = re.escape(self.source_language)
        return self._prefix.match_names(rf"(test.*)\.{language}")

    def _hint(self, split):
        tests = self._test_sets()
        if split == "test" and len(tests) > 1:
            return (
                f"there are several, {', '.join(tests)}; link or rename the "
                "one to use as test"
            )
        expected = self._prefix.path(f"{split}.{self.source_language}")
        return (
            f"expected {expected}, plain or .gz, and its translation; there "
            f"are {self._prefix.languages() or 'no languages'}. Check the "
            'prefix, which for a folder ends with "/"'
        )


def _validate_line_ends(path):
    """Raises InputError for a file of one line with carriage returns in it."""
    lines = [*itertools.islice(read_lines(path, verbatim=True), 2)]
    if len(lines) == 1 and "\r" in lines[0]:
        raise InputError(
            f"The lines of {path} end with carriage returns; convert it first, "
            "with tr '\\r' '\\n' for example."
        )


class FilePrefix:
    """Files whose path or URL starts with a prefix, named without it.

    `file` is the path of the file that the prefix names, or None.
    """

    def __init__(self, prefix: str):
        try:
            path = resolve_path(prefix)
            path = path.expanduser() if is_local(path) else path
        # ~USER without a home folder.
        except RuntimeError as error:
            raise InputError(f"{prefix} names no folder: {error}") from error
        is_folder = prefix.endswith("/")
        self._folder = path if is_folder else path.parent
        self._start = "" if is_folder else f"{path.name}."
        try:
            names = list_names(self._folder)
        except OSError as error:
            raise InputError(
                f"Cannot list {self._folder} ({error_reason(error)}); "
                "check the prefix of the data set."
            ) from error
        # The file itself, if the prefix names one.
        self.file = None
        if not is_folder and path.name in names and path.is_file():
            self.file = path
        self._names = {
            name.removeprefix(self._start)
            for name in names
            if name.startswith(self._start)
        }

    def path(self, name: str) -> str:
        """Returns the path of a file, which need not exist."""
        return str(self._folder / f"{self._start}{name}")

    def find(self, name: str) -> "AnyPath | None":
        """Returns the path of a plain or compressed file, if it exists."""
        for candidate in (name, f"{name}.gz"):
            if candidate in self._names:
                return self._folder / f"{self._start}{candidate}"
        return None

    def match_names(self, pattern: str) -> list[str]:
        """Returns the pattern's first group in all matching names, sorted."""
        compiled = re.compile(rf"{pattern}(?:\.gz)?")
        matches = map(compiled.fullmatch, self._names)
        return sorted({match[1] for match in matches if match})

    def languages(self) -> str:
        """Returns the languages of training files, such as "de, en"."""
        return ", ".join(self.match_names(r"train\.([\w-]+)"))

    def find_numbered(self, name: str) -> list[AnyPath]:
        """Returns the paths of NAME.1, NAME.2 and so on, in numeric order."""
        numbers = self.match_names(rf"{re.escape(name)}\.(\d+)")
        return [self.find(f"{name}.{n}") for n in sorted(numbers, key=int)]
