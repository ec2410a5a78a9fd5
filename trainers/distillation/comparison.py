"""BLEU of student and teachers on the same test split."""

import dataclasses
import json

from export.files.atomic import written_whole
from export.lines.files import read_sentences
from trainers.scores.metrics import score_bleu
from trainers.scores.paired import bleu_difference


def compare_bleu(paths, evaluation_set, tokenize, output):
    """Scores the translations of student and teachers, and writes the scores.

    Args:
        paths: of the files of the student's and the teachers' translations.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokenizer.
        output: pathlib.Path of the .json file for the scores.

    Returns:
        Lines to print, a list of str.

    Raises:
        InputError: a file cannot be read or written.
    """
    places = evaluation_set.scored
    scored = evaluation_set.only(places)
    lines = [list(read_sentences(path)) for path in paths]
    texts = [[each[place] for place in places] for each in lines]
    student, teacher = (score_bleu(each, scored, tokenize) for each in texts)
    difference = bleu_difference(*texts, scored, tokenize)
    content = {
        "student": student.score,
        "teacher": teacher.score,
        "signature": student.signature,
        "sentences": len(places),
        **dataclasses.asdict(difference),
    }
    with written_whole(output) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return [
        f"teacher: BLEU {teacher.score:.2f}",
        f"student: BLEU {student.score:.2f}; {difference.line}",
        f"{len(places):,} sentences, {student.signature}",
    ]
