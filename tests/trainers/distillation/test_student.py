import pytest

from export.common.errors import InputError
from tests.export import tiny
from trainers.distillation.student import find_mismatch, student_config
from trainers.training import config_flags

TEACHER = tiny.config(dropout=0.3)


def test_by_default_it_is_the_teacher_with_one_decoder_layer():
    found = student_config(TEACHER, None, [])
    assert found == TEACHER.replace(num_decoder_layers=1)
    assert not find_mismatch(found, TEACHER)
    changes = ["num_decoder_layers=2", "stop=likely", "output_bias=true"]
    found = student_config(TEACHER, None, changes)
    expected = {"num_decoder_layers": 2, "stop": "likely", "output_bias": True}
    assert found == TEACHER.replace(**expected)
    # As trainers.wmt gets it.
    texts = config_flags.format_assignments(found, "base")
    assert config_flags.make_config("base", texts) == found


def test_a_preset_has_the_vocabulary_of_the_teacher():
    found = student_config(TEACHER, "tiny-2-1", ["d_ff=8"])
    changes = ["d_ff=8", f"vocabulary_size={TEACHER.vocabulary_size}"]
    assert found == config_flags.make_config("tiny-2-1", changes)
    assert find_mismatch(found, TEACHER) == "d_model=128, not 16"


def test_what_is_refused():
    for preset, assignment, named in (
        (None, "vocabulary_size=99", "vocabulary_size"),
        ("tinny", "dropout=0", "tinny"),
        ("tiny", "dropuot=0", "dropuot"),
        (None, "num_layers=-1", "num_layers"),
    ):
        with pytest.raises(InputError, match=named):
            student_config(TEACHER, preset, [assignment])
