"""The steps of a distillation, their journal, and the student's corpus."""

import json

import pytest

from export.common.errors import InputError
from tests.export import tiny
from tests.trainers import cipher
from trainers.data import open_corpus
from trainers.distillation.steps import (
    JOURNAL_FILE,
    Step,
    find_mismatch,
    read_finished_commands,
    run_steps,
    student_config,
    write_mixture,
)
from trainers.training import config_flags

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


TEACHER = tiny.config(dropout=0.3)


def test_by_default_it_is_the_teacher_with_one_decoder_layer():
    found = student_config(TEACHER, None, [])
    assert found == TEACHER.replace(num_decoder_layers=1)
    assert not find_mismatch(found, TEACHER)
    changes = ["num_decoder_layers=2", "output_bias=true"]
    found = student_config(TEACHER, None, changes)
    assert found == TEACHER.replace(num_decoder_layers=2, output_bias=True)
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
        (None, "num_layers=-1", "num_layers"),
    ):
        with pytest.raises(InputError, match=named):
            student_config(TEACHER, preset, [assignment])


SETTINGS = {"best_of": 1, "dropout": 0.1}


class _Commands:
    """Stands in for the commands: writes what each would, or fails once."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.flags = {name: [] for name in ("teach", "prepare", "train")}

    def run(self, settings=SETTINGS, **fails):
        self.asked = []

        def run_command(module, arguments):
            self.asked.append(module)
            if module in fails:
                return fails[module]
            (self.folder / module).touch()
            return 0

        steps = [
            Step(name, [name, *flags], self.folder / name)
            for name, flags in self.flags.items()
        ]
        return run_steps(steps, self.folder, settings, run_command)


@pytest.fixture
def commands(tmp_path):
    return _Commands(tmp_path)


def test_steps_that_are_done_are_skipped(commands):
    assert commands.run(prepare=143) == 143
    assert commands.asked == ["teach", "prepare"]
    assert commands.run(train=2) == 2
    assert commands.asked == ["prepare", "train"]
    assert commands.run() == 0
    assert commands.asked == ["train"]
    assert commands.run() == 0
    assert not commands.asked
    content = json.loads((commands.folder / JOURNAL_FILE).read_text())
    assert content["settings"] == SETTINGS
    assert content["finished"] == [["teach"], ["prepare"], ["train"]]


def test_a_step_with_other_flags_and_all_after_it_run_again(commands):
    commands.run()
    commands.flags["prepare"] = ["--workers=2"]
    commands.run()
    assert commands.asked == ["prepare", "train"]
    (commands.folder / "train").unlink()
    commands.run()
    assert commands.asked == ["train"]


def test_a_step_that_raises_is_not_done(tmp_path):
    def fail():
        raise InputError("no room")

    with pytest.raises(InputError, match="no room"):
        run_steps([Step("mixing", ["mix"], tmp_path, fail)], tmp_path, {}, None)
    assert read_finished_commands(tmp_path, {}) == []


def test_other_settings_are_refused_once_a_step_is_done(commands):
    commands.run(teach=2)
    other = SETTINGS | {"best_of": 2, "dataset": "text:toy"}
    other["fingerprint"] = f"a.en 9 {0:016x}"
    commands.run(other, prepare=2)
    with pytest.raises(InputError, match="best_of 2, not 1"):
        commands.run()
    changed = other | {"fingerprint": f"a.en 12 {1:016x}"}
    with pytest.raises(InputError, match="differs in a.en"):
        commands.run(changed)


def test_damaged_journals_and_other_files_are_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="thesis.tex"):
        read_finished_commands(tmp_path, SETTINGS)
    for text in ("", "[]", '{"settings": {}}'):
        (tmp_path / JOURNAL_FILE).write_text(text)
        with pytest.raises(InputError, match=JOURNAL_FILE):
            read_finished_commands(tmp_path, SETTINGS)
