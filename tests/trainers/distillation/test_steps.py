"""Steps one after the other, and the journal of those that are done."""

import json

import pytest

from export.errors import InputError
from trainers.distillation.journal import FILE, Journal
from trainers.distillation.steps import Step, go_through, subcommand

FACTS = {"best_of": 1, "dropout": 0.1}


class _Commands:
    """Stands in for the commands: writes what each would, or fails once."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.fails = {}
        self.flags = {name: [] for name in ("teach", "prepare", "train")}

    def __call__(self, module, arguments):
        self.asked.append(module)
        if module in self.fails:
            return self.fails.pop(module)
        (self.folder / module).touch()
        return 0

    def go(self, facts=FACTS):
        self.asked = []
        steps = [
            subcommand(name, name, flags, self.folder / name, self)
            for name, flags in self.flags.items()
        ]
        return go_through(steps, Journal(self.folder, facts))


@pytest.fixture
def commands(tmp_path):
    return _Commands(tmp_path)


def test_what_is_done_is_passed_over(commands, capsys):
    commands.fails = {"prepare": 143}
    assert commands.go() == 143
    assert commands.asked == ["teach", "prepare"]
    assert "Interrupted in step 2" in capsys.readouterr().out
    commands.fails = {"train": 2}
    assert commands.go() == 2
    assert commands.asked == ["prepare", "train"]
    assert "Step 3 ended with exit code 2." in capsys.readouterr().out
    assert commands.go() == 0
    assert commands.asked == ["train"]
    assert commands.go() == 0
    assert not commands.asked


def test_a_step_of_other_flags_and_all_after_it_are_made_again(commands):
    commands.go()
    commands.flags["prepare"] = ["--workers=2"]
    commands.go()
    assert commands.asked == ["prepare", "train"]
    (commands.folder / "train").unlink()
    commands.go()
    assert commands.asked == ["train"]


def test_a_step_that_raises_is_not_done(commands, tmp_path):
    def fail():
        raise InputError("no room")

    steps = [Step("mixing", ["mix"], tmp_path, fail)]
    with pytest.raises(InputError, match="no room"):
        go_through(steps, Journal(tmp_path, FACTS))
    assert not Journal(tmp_path, FACTS).is_done(0, ["mix"])


def test_other_facts_are_refused_once_a_step_is_done(commands):
    commands.fails = {"teach": 2}
    commands.go()
    other = FACTS | {"best_of": 2}
    commands.fails = {"prepare": 2}
    commands.go(other)
    with pytest.raises(InputError, match=r"begun with best_of 2, not 1; put"):
        commands.go()


def test_a_changed_file_is_named(commands):
    before = FACTS | {"dataset": "text:toy", "fingerprint": f"a.en 9 {0:016x}"}
    commands.go(before)
    with pytest.raises(InputError, match=r"a\.en had 9 bytes and has 12;"):
        commands.go(before | {"fingerprint": f"a.en 12 {1:016x}"})


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "facts": {}}']
)
def test_a_damaged_journal_is_told(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match="does not say how far"):
        Journal(tmp_path, FACTS)


def test_a_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="other files, such as thesis.tex"):
        Journal(tmp_path, FACTS)


def test_what_is_written_can_be_read(commands):
    commands.go()
    content = json.loads((commands.folder / FILE).read_text())
    assert content["facts"] == FACTS
    assert content["done"] == [["teach"], ["prepare"], ["train"]]
