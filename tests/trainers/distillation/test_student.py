"""The student's configuration, and its corpus: each pair once."""

import pytest

from export.common.errors import InputError
from tests.export import conftest, tiny
from tests.trainers import cipher
from trainers.data import open_corpus
from trainers.distillation.steps import (
    find_mismatch,
    student_config,
    write_mixture,
)
from trainers.training import config_flags

small_disk = conftest.small_disk

PAIRS = [("a b", "x y"), ("c", "z"), ("a b", "x y"), ("d", "w")]
TRANSLATED = [[("a b", "x y"), ("c", "zz")], [("c", "zz"), ("d", "v v")]]


def _write(folder, split, pairs):
    folder.mkdir(exist_ok=True)
    cipher.write_split(folder, split, *zip(*pairs))
    return folder


def _open(folder):
    return open_corpus(f"text:{folder}/", cipher.SOURCE, cipher.TARGET)


@pytest.fixture
def original(tmp_path):
    folder = _write(tmp_path / "original", "train", PAIRS)
    _write(folder, "dev", [("a", "x")])
    _write(folder, "test", [("a", "x"), ("", "y"), ("b", "y")])
    (folder / "test.xx.1").write_text("xx\n\n\n")
    return _open(folder)


@pytest.mark.parametrize("keep_original", [True, False])
def test_each_pair_is_written_once(original, tmp_path, keep_original):
    synthetic = [
        _write(tmp_path / str(n), "train", pairs)
        for n, pairs in enumerate(TRANSLATED)
    ]
    mixed = tmp_path / "mixed"
    write_mixture(mixed, original, synthetic, keep_original)
    expected = [*(PAIRS if keep_original else []), *TRANSLATED[0]]
    expected = dict.fromkeys([*expected, *TRANSLATED[1]])
    assert list(_open(mixed).pairs("train")) == list(expected)
    for split in ("dev", "test"):
        before, after = (
            c.evaluation_set(split) for c in (original, _open(mixed))
        )
        assert before == after
    assert len(after.references[0]) == 2


def test_a_really_full_disk_is_refused(original, small_disk, tmp_path):
    pairs = [(f"{number:050}", "x" * 50) for number in range(40_000)]
    much = _write(tmp_path / "much", "train", pairs)
    with pytest.raises(InputError, match="No space left"):
        write_mixture(small_disk / "mixed", original, [much], True)
    assert not [*small_disk.glob("mixed/*train*")]


TEACHER = tiny.config(dropout=0.3)


def test_by_default_it_is_the_teacher_with_one_decoder_layer():
    found = student_config(TEACHER, None, [])
    assert found == TEACHER.replace(num_decoder_layers=1)
    assert not find_mismatch(found, TEACHER)
    changes = [
        "num_decoder_layers=2",
        "stop_criterion=heuristic",
        "output_bias=true",
    ]
    found = student_config(TEACHER, None, changes)
    expected = {
        "num_decoder_layers": 2,
        "stop_criterion": "heuristic",
        "output_bias": True,
    }
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
