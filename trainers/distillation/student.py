"""What a student is: its configuration, and what it begins with."""

import dataclasses

from export.errors import InputError
from trainers import settings

# Pieces are those of the teacher.
_PIECES = ("vocabulary_size", "source_vocabulary_size")
_LAYERS = ("num_layers", "num_decoder_layers")


def student_config(teacher, preset, assignments):
    """Returns the student's configuration.

    Args:
        teacher: TransformerConfig of the first teacher.
        preset: name of a preset; None for the teacher's own configuration
            with one decoder layer.
        assignments: list of "field=value" that change it.

    Returns:
        TransformerConfig, with as many pieces as the teacher has.

    Raises:
        InputError: an unknown preset or field, a value out of range, or
            another number of pieces.
    """
    asked = settings.values_of(assignments)
    pieces = {name: getattr(teacher, name) for name in _PIECES}
    for name, value in pieces.items():
        if asked.get(name, value) != value:
            raise InputError(
                f"--set={name}={asked[name]} is not the teacher's {value}, "
                "and a student has the vocabulary of its teacher; leave it "
                "out."
            )
    if preset is not None:
        own = [f"{name}={value}" for name, value in pieces.items()]
        return settings.make_config(preset, [*assignments, *own])
    try:
        defaults = dataclasses.asdict(teacher)
        shorter = settings.shorter_cooldown(defaults, asked)
        return teacher.replace(**{"num_decoder_layers": 1, **asked, **shorter})
    except ValueError as error:
        raise InputError(str(error)) from error


def find_mismatch(student, teacher):
    """Says why a student cannot begin with layers of a teacher.

    Args:
        student: TransformerConfig.
        teacher: TransformerConfig.

    Returns:
        Such as "d_model=64, not 128"; "" where it can.
    """
    own, expected = student.architecture(), teacher.architecture()
    for name, value in expected.items():
        if name not in _LAYERS and own[name] != value:
            return f"{name}={own[name]}, not {value}"
    return ""
