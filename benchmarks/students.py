"""Students beside their teachers, over several corpora and seeds.

    python benchmarks/students.py --distilled=runs/fr --distilled=runs/de

Each folder is one of trainers.distill with its `scores/`. Further students of
the same teacher, such as trainings with other seeds, lie beside the first as
`scores/student-2` and so on, translations a line each, as `trainers.evaluate
--output` writes them. The last row has all test sets and all students together:
every sentence counts once for each student, beside its teacher. In brackets
95 % of resampled sets by paired bootstrap.
"""

import json
import pathlib
import sys
import typing

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.harness import report
from export import command
from export.errors import InputError
from export.lines.files import read_sentences
from trainers.corpora import open_corpus
from trainers.distillation.journal import FILE
from trainers.scores import bleu_tokenizers
from trainers.scores.metrics import bleu_counts, difference_of, score_bleu

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "distilled", None, "Folder of trainers.distill.", required=True
)
flags.DEFINE_string("split", "test", "Which the translations are of.")
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")


class _Student(typing.NamedTuple):
    """One student's translations, and its teacher's, as they are counted."""

    corpus: str
    name: str
    bleu: float
    teacher: float
    counts: np.ndarray
    teachers: np.ndarray


def main(_):
    """Runs the command."""
    corpora = [_students(pathlib.Path(each)) for each in FLAGS.distilled]
    rows = [_row(student) for students in corpora for student in students]
    ours, theirs = (
        np.concatenate(
            [sum(getattr(each, name) for each in some) for some in corpora]
        )
        for name in ("counts", "teachers")
    )
    rows.append(["all", "all", "", "", difference_of(ours, theirs).cell])
    header = ["corpus", "student", "BLEU", "teacher", "difference"]
    lines = [
        report.line("benchmarks/students.py", sys.argv[1:], "tensorflow"),
        "",
        report.markdown(header, "llrrr", rows),
    ]
    report.publish("\n".join(lines), FLAGS.output)


def _students(folder):
    """Returns the list of _Student of a folder."""
    try:
        facts = json.loads((folder / FILE).read_text(encoding="utf-8"))["facts"]
        names = ("dataset", "source_language", "target_language")
        corpus = open_corpus(*(facts[name] for name in names))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder} is no folder of trainers.distill ({error!r})."
        ) from error
    tokenize = bleu_tokenizers.choose(corpus.target_language, None)
    split = corpus.evaluation_set(FLAGS.split)
    scored = split.only(split.scored)

    def counted(path):
        lines = read_sentences(path)
        if len(lines) != len(split.sources):
            raise InputError(
                f"{path} has {len(lines):,} lines for {len(split.sources):,} "
                f"sentences of {FLAGS.split}."
            )
        texts = [lines[place] for place in split.scored]
        bleu = score_bleu(texts, scored, tokenize).score
        return bleu, bleu_counts(texts, scored, tokenize)

    teacher, teachers = counted(folder / "scores" / "teacher")
    paths = [folder / "scores" / "student"]
    paths += sorted(folder.glob("scores/student-*"))
    found = []
    for path in paths:
        bleu, counts = counted(path)
        found.append(
            _Student(corpus.name, path.name, bleu, teacher, counts, teachers)
        )
    return found


def _row(student):
    return [
        *(student.corpus, student.name),
        *(f"{student.bleu:.2f}", f"{student.teacher:.2f}"),
        difference_of(student.counts, student.teachers).cell,
    ]


if __name__ == "__main__":
    command.run(main)
