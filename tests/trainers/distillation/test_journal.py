"""Steps one after the other, and the journal of those that are done."""

import json

import pytest

from export.common.errors import InputError
from trainers.distillation.journal import (
    JOURNAL_FILE,
    Step,
    read_finished_commands,
    run_steps,
)

FACTS = {"best_of": 1, "dropout": 0.1}


class _Commands:
    """Stands in for the commands: writes what each would, or fails once."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.flags = {name: [] for name in ("teach", "prepare", "train")}

    def run(self, facts=FACTS, **fails):
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
        return run_steps(steps, self.folder, facts, run_command)


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
    assert content["facts"] == FACTS
    assert content["done"] == [["teach"], ["prepare"], ["train"]]


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


def test_other_facts_are_refused_once_a_step_is_done(commands):
    commands.run(teach=2)
    other = FACTS | {"best_of": 2, "dataset": "text:toy"}
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
        read_finished_commands(tmp_path, FACTS)
    for text in (
        *("", "[]", "{}", '{"format": 2}'),
        '{"format": 1, "facts": {}}',
    ):
        (tmp_path / JOURNAL_FILE).write_text(text)
        with pytest.raises(InputError, match=JOURNAL_FILE):
            read_finished_commands(tmp_path, FACTS)
