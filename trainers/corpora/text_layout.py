"""Which files belong to `text:PREFIX`, by their names."""

import dataclasses
import re
from pathlib import Path

from export.command import InputError

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
        prefix: a path; the names go on with ".train.en" and so on, or with
            "train.en" where the prefix ends with "/".

    Raises:
        InputError: the folder that the prefix lies in cannot be listed, or
            "~" names nobody.
    """

    def __init__(self, prefix: str) -> None:
        try:
            path = Path(prefix).expanduser()
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
            names = [path.name for path in self._folder.iterdir()]
        except OSError as error:
            raise InputError(
                f"Cannot list {self._folder} ({error.strerror}); files such "
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
