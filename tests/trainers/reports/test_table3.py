"""Training rows of Table 3 in sequence, and going on where it stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from export.common.command import command_line
from export.common.errors import InputError
from tests import processes
from tests.trainers import cipher, commands
from trainers.reports.table3_rows import Table3Runs, make_table3_rows
from trainers.training.config_flags import make_config

DATA = (
    "--dataset=text:toy",
    f"--source_language={cipher.SOURCE}",
    f"--target_language={cipher.TARGET}",
)
SMALL = ("vocabulary_size=64", "num_layers=1", "batch_tokens=128")


class _Commands:
    """Stands in for the commands: writes what they would, or fails once."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.fails = {}

    def __call__(self, module, arguments):
        (name,) = (a for a in arguments if a.startswith("--model_dir="))
        path = self.folder / name.partition("=")[2]
        self.asked.append((module, path.name))
        if (module, path.name) in self.fails:
            return self.fails.pop((module, path.name))
        path.mkdir(parents=True, exist_ok=True)
        command = command_line(module, *arguments)
        if module == "trainers.wmt":
            sets = [a[6:] for a in arguments if a.startswith("--set=")]
            text = make_config("base", sets).to_json()
            (path / "config.json").write_text(text)
            (path / "command").write_text(command)
            return 0
        steps = json.loads((path / "config.json").read_text())["train_steps"]
        record = {"step": steps, "command": command, "score": 20.0}
        record["training"] = {"command": (path / "command").read_text()}
        (path / "scores.json").write_text(json.dumps([record]))
        return 0


def _runs(commands_, *scoring, training=("--shapes=1",)):
    return Table3Runs(
        commands_.folder, list(DATA), [*training], [*scoring], commands_
    )


def test_a_finished_row_of_other_training_flags_is_refused(tmp_path):
    fake = _Commands(tmp_path)
    (base,) = make_table3_rows([], [], SMALL, 0.25, 9)
    for trained in ((), ("--seed=2",), ("--ema=0.9", "--seed=2")):
        path = tmp_path / " ".join(trained) / "a folder"
        fake.folder = path
        assert _runs(fake, training=trained).train_and_score(base) == 0
        assert _runs(fake, training=trained).read_score(base)
        for other in ((), ("--seed=3",), ("--seed=2",)):
            if other != trained:
                with pytest.raises(InputError, match="Row base was trained"):
                    _runs(fake, training=other).read_score(base)


def test_finished_rows_are_skipped_and_others_resumed(tmp_path):
    fake = _Commands(tmp_path)
    base, one = make_table3_rows(["A1"], [], SMALL, 0.25, 9)
    runs = _runs(fake)
    assert runs.read_score(base) is None
    assert runs.train_and_score(base) == 0
    assert runs.read_score(base)["score"] == 20.0
    assert runs.read_score(one) is None
    # Interrupted in training, it is not scored; then in scoring.
    fake.fails = {("trainers.wmt", "A1"): 130}
    assert runs.train_and_score(one) == 130
    fake.fails = {("trainers.evaluate", "A1"): 2}
    assert runs.train_and_score(one) == 2
    assert runs.read_score(one) is None
    assert runs.train_and_score(one) == 0
    assert _runs(fake).read_score(one)
    train, score = "trainers.wmt", "trainers.evaluate"
    assert fake.asked == [
        *((train, "base"), (score, "base"), (train, "A1")),
        *((train, "A1"), (score, "A1"), (train, "A1"), (score, "A1")),
    ]
    # Other values, or another way of scoring, are another row.
    assert not _runs(fake, "--tokenized").read_score(base)
    for common, steps in (([*SMALL, "dropout=0"], 9), (SMALL, 10)):
        (other,) = make_table3_rows([], [], common, 0.25, steps)
        assert not _runs(fake).read_score(other)


def test_the_commands_know_the_flags_that_they_are_given(tmp_path):
    def run(module, arguments):
        result = processes.run(
            {"module": module}, [*arguments, "--only_check_args"], tmp_path
        )
        assert not result.err
        return result.code

    runs = Table3Runs(
        "out", list(DATA), ["--row_tokens=24"], ["--limit=5"], run
    )
    (_, row) = make_table3_rows([], ["mine:norm=pre"], SMALL, 1 / 16, 2)
    assert runs.train_and_score(row) == 0


@pytest.mark.slow
def test_an_interrupted_table_resumes_and_skips_finished_rows(tmp_path):
    """Interrupted in the second row, after its first step."""
    cipher.write(tmp_path)

    def start():
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "trainers.table3", *DATA),
                *(f"--set={each}" for each in SMALL),
                *("--scale=0.0625", "--output_dir=out", "--rows=base,A1"),
                *("--train_steps=600", "--wmt_flag=--row_tokens=24"),
                "--wmt_flag=--checkpoint_steps=50",
            ],
            cwd=tmp_path,
            env=commands.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    process = start()
    second = tmp_path / "out" / "rows" / "A1" / "checkpoints"
    while process.poll() is None and not list(second.glob("step-*")):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 143, err
    assert "Interrupted in row A1; the same command resumes." in out
    assert "not yet" in (tmp_path / "out" / "table3.md").read_text()
    process = start()
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert "Row base" not in out
    assert "Row A1, 2 of 2." in out
    assert re.search(r"Resuming from step \d+\.", out)
    assert "not yet" not in (tmp_path / "out" / "table3.md").read_text()
