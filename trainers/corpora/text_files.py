"""Parallel text files: one sentence a line, one file a language.

`text:PREFIX` reads `PREFIX.train.en` and `PREFIX.train.de` (for en and de),
`PREFIX.dev.*` and `PREFIX.test.*`; a PREFIX that ends with "/" means a folder
with `train.en` and so on. Each file may be packed (`.gz`); where both are
there the plain one is read. `val` and `valid` stand for `dev` where there is
no `dev`, and where there is no `test.en`, the only file `test*.en` is taken.
More references of dev and test are `….test.de.1`, `….test.de.2` and so on,
beside `….test.de`.
"""

import re
from collections.abc import Iterator

from export.command import InputError
from trainers.corpora.fingerprints import file_fingerprint
from trainers.corpora.languages import refuse_same
from trainers.corpora.lines import aligned_lines
from trainers.corpora.row_corpus import Row, RowCorpus
from trainers.corpora.text_layout import SPLITS, TextLayout


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
        """Returns 16 hex digits over the files of all splits.

        Covers their names, sizes, and first and last MiB, in the order of
        the direction; see `file_fingerprint`.
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
        if not re.fullmatch(r"\w[\w-]*", language):
            raise InputError(
                f"{language!r} is not a language code such as en or pt_BR; "
                f"the training files of {dataset} are for: {possible}."
            )
    refuse_same(dataset, source, target, possible)
    return source, target
