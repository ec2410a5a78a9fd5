"""The student's corpus: the teachers' translations and the original pairs."""

from export.files.atomic import remove_unfinished
from export.lines.files import aligned_lines
from export.progress_bar import ProgressBar
from trainers.synthesis.parallel_text import drop_duplicates, write_parallel


def write_mixture(folder, corpus, synthetic, keep_original):
    """Writes a corpus that `text:FOLDER/` names, each pair once.

    Its dev and test splits are those of the original.

    Args:
        folder: pathlib.Path.
        corpus: Corpus, the original.
        synthetic: list of pathlib.Path, output folders of
            trainers.synthesize.
        keep_original: whether the original's pairs are included.

    Returns:
        The number of pairs in the train split.

    Raises:
        InputError: something cannot be read, or the system refused to write.
    """
    languages = corpus.source_language, corpus.target_language

    def pairs():
        if keep_original:
            yield from corpus.pairs("train")
        for each in synthetic:
            paths = [each / f"train.{language}" for language in languages]
            yield from aligned_lines(paths)

    def paths(split, *suffixes):
        names = [f"{split}.{language}" for language in languages]
        return [folder / name for name in (*names, *suffixes)]

    remove_unfinished(folder, "*")
    with ProgressBar("Mixing", None, "pairs") as bar:

        def counted():
            for pair in pairs():
                yield pair
                bar.update(1)

        count = write_parallel(paths("train"), drop_duplicates(counted()))
    for split in ("dev", "test"):
        if split in corpus.splits():
            written = corpus.evaluation_set(split)
            most = max(map(len, written.references))
            # A blank line is no reference.
            rows = (
                (source, *references, *[""] * (most - len(references)))
                for source, references in zip(
                    written.sources, written.references
                )
            )
            more = [f"{split}.{languages[1]}.{n}" for n in range(1, most)]
            write_parallel(paths(split, *more), rows)
    return count
