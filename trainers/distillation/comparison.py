"""Student and teachers on the same test split."""

import dataclasses
import json

from export.files.atomic import written_whole
from export.lines.files import read_sentences
from export.progress_bar import ProgressBar
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from trainers.scores.metrics import bleu_difference, score_bleu


def translate(models, sources, path):
    """Writes translations of models that decode together, a line a source.

    Args:
        models: list of model directories' paths.
        sources: list of str.
        path: pathlib.Path of the file.

    Raises:
        InputError: a model cannot be used, or the system refused to write.
    """
    translator = load_translator(models, BATCH_TOKENS, {})
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        found = translator.translate(sources, bar.update)
    with written_whole(path) as temporary:
        temporary.write_text(
            "".join(f"{each.text}\n" for each in found), encoding="utf-8"
        )


def compare(paths, evaluation_set, tokenize, output):
    """Scores the translations of student and teachers, and keeps the scores.

    Args:
        paths: of the files of the student's translations and the teachers',
            a line a source.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokeniser.
        output: pathlib.Path of the .json file for the scores.

    Returns:
        What is printed, a list of str.

    Raises:
        InputError: a file cannot be read or written.
    """
    places = evaluation_set.scored
    scored = evaluation_set.only(places)
    lines = [list(read_sentences(path)) for path in paths]
    texts = [[each[place] for place in places] for each in lines]
    student, teacher = (score_bleu(each, scored, tokenize) for each in texts)
    found = bleu_difference(*texts, scored, tokenize)
    content = {
        "student": student.score,
        "teacher": teacher.score,
        "signature": student.signature,
        "sentences": len(places),
        **dataclasses.asdict(found),
    }
    with written_whole(output) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return [
        f"teacher: BLEU {teacher.score:.2f}",
        f"student: BLEU {student.score:.2f}; {found.line}",
        f"{len(places):,} sentences, {student.signature}",
    ]
