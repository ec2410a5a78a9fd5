"""Configuration of the student, and its BLEU compared with the teachers."""

import dataclasses

from export.common.atomic_files import write_json
from export.common.errors import InputError
from export.lines.files import read_sentences
from trainers.scores.metrics import bleu_difference, score_bleu
from trainers.training import config_flags

_VOCABULARY = ("vocabulary_size", "source_vocabulary_size")
_LAYERS = ("num_layers", "num_decoder_layers")


def student_config(teacher, preset, assignments):
    """Returns the student's TransformerConfig, with the teacher's vocabulary.

    Without `preset`, it is the teacher's with one decoder layer. `assignments`
    is a list of "field=value" that change it. Raises InputError for an unknown
    preset or field, a value out of range, or another vocabulary size.
    """
    changes = config_flags.parse_assignments(assignments)
    sizes = {name: getattr(teacher, name) for name in _VOCABULARY}
    for name, value in sizes.items():
        if changes.get(name, value) != value:
            raise InputError(
                f"--set={name}={changes[name]} is not the teacher's {value}, "
                "and a student has the vocabulary of its teacher; omit it."
            )
    if preset is not None:
        own = [f"{name}={value}" for name, value in sizes.items()]
        return config_flags.make_config(preset, [*assignments, *own])
    try:
        defaults = dataclasses.asdict(teacher)
        changes |= config_flags.scale_cooldown(defaults, changes)
        return teacher.replace(**{"num_decoder_layers": 1, **changes})
    except ValueError as error:
        raise InputError(str(error)) from error


def find_mismatch(student, teacher):
    """Returns why a teacher's layers do not fit a student, or "".

    An example is "d_model=64, not 128".
    """
    own, expected = student.architecture(), teacher.architecture()
    for name, value in expected.items():
        if name not in _LAYERS and own[name] != value:
            return f"{name}={own[name]}, not {value}"
    return ""


def compare_bleu(paths, evaluation_set, tokenize, output):
    """Scores translations of student and teachers; returns lines to print.

    `paths` are the student's and the teachers' translations, `tokenize` names
    sacreBLEU's tokenizer, and `output` is the .json file for the scores.
    """
    indices = evaluation_set.scored_indices
    scored = evaluation_set.subset(indices)
    lines = [list(read_sentences(path)) for path in paths]
    texts = [[each[index] for index in indices] for each in lines]
    student, teacher = (score_bleu(each, scored, tokenize) for each in texts)
    difference = bleu_difference(*texts, scored, tokenize)
    content = {
        "student": student.score,
        "teacher": teacher.score,
        "signature": student.signature,
        "sentences": len(indices),
        **dataclasses.asdict(difference),
    }
    write_json(output, content)
    return [
        f"teacher: BLEU {teacher.score:.2f}",
        f"student: BLEU {student.score:.2f}; {difference.line}",
        f"{len(indices):,} sentences, {student.signature}",
    ]
