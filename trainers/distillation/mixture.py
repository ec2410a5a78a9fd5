"""The corpus that a student learns from: what teachers said, and the original.

It has the original's dev and test splits, and each pair once.
"""

import contextlib
import itertools

from export.errors import InputError
from export.files.atomic import remove_unfinished, written_whole
from export.lines.files import aligned_lines
from export.progress_bar import ProgressBar
from trainers.synthesis.duplicates import Duplicates


def mix(folder, corpus, taught, keep_original):
    """Writes a corpus that `text:FOLDER/` names.

    Args:
        folder: pathlib.Path.
        corpus: Corpus, the original.
        taught: list of pathlib.Path, folders of trainers.synthesize.
        keep_original: whether the original's pairs are part of it.

    Returns:
        (pairs of the train split, pairs left out because they were there).

    Raises:
        InputError: something cannot be read, or the system refused to write.
    """
    codes = corpus.source_language, corpus.target_language

    def pairs():
        if keep_original:
            yield from corpus.pairs("train")
        for each in taught:
            yield from aligned_lines([each / f"train.{c}" for c in codes])

    count = sum(1 for _ in pairs())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder, "*")
        repeated = Duplicates(folder, count).find(pairs())
    except OSError as error:
        raise InputError(
            f"Cannot write in {folder}: {error.strerror}; make room, then run "
            "the same command again."
        ) from error
    left_out = int(repeated.sum())
    with ProgressBar("Writing", count - left_out, "pairs") as bar:
        kept = _counted(itertools.compress(pairs(), ~repeated), bar)
        _write([folder / f"train.{code}" for code in codes], kept)
    for split in ("dev", "test"):
        if split in corpus.splits():
            _write_set(folder, split, codes, corpus.evaluation_set(split))
    return count - left_out, left_out


def _counted(pairs, bar):
    for pair in pairs:
        yield pair
        bar.update(1)


def _write_set(folder, split, codes, evaluation_set):
    """Writes sources and references, a blank line where there is none."""
    source, target = codes
    most = max(map(len, evaluation_set.references))
    more = [f"{split}.{target}.{number}" for number in range(1, most)]
    names = [f"{split}.{source}", f"{split}.{target}", *more]
    rows = (
        (text, *references, *[""] * (most - len(references)))
        for text, references in zip(
            evaluation_set.sources, evaluation_set.references
        )
    )
    _write([folder / name for name in names], rows)


def _write(paths, rows):
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(written_whole(path)) for path in paths]
        files = [
            stack.enter_context(place.open("w", encoding="utf-8", newline=""))
            for place in places
        ]
        for row in rows:
            for file, text in zip(files, row, strict=True):
                file.write(f"{text}\n")
