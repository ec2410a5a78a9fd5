import itertools
import json

import pytest

from export.errors import InputError
from trainers.provenance import TrainingLog

FACTS = {"command": "python -m x", "hardware": "A", "date": "2026-01-01"}


def _file(directory):
    return directory.path / "training.json"


def test_times_are_summed_over_the_runs(directory, monkeypatch):
    for first, last, seconds in ((0, 10, 5.0), (10, 25, 7.5)):
        log = TrainingLog(directory)
        log.begin(first, FACTS | {"hardware": "AB"[first // 10]})
        now = itertools.repeat(log._started + seconds)
        monkeypatch.setattr("time.monotonic", now.__next__)
        log.note(last - 1)
        log.note(last)
        monkeypatch.undo()
    log.note_weights(25, "the last step")
    again = TrainingLog(directory)
    assert again.weights == {"step": 25, "made_from": "the last step"}
    assert again.summary() == {
        "command": "python -m x",
        "runs": 2,
        "steps": 25,
        "seconds": 12.5,
        "hardware": "A; B",
        "date": "2026-01-01",
    }


def test_where_there_is_none_nothing_is_told_and_nothing_made(directory):
    log = TrainingLog(directory)
    assert (log.weights, log.summary()) == ({}, {})
    assert not directory.path.exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"runs": [{}], "weights": {}}',
        '{"runs": [], "weights": {"step": "9"}}',
        '{"runs": [1], "weights": {}}',
    ],
)
def test_a_file_that_is_none_is_named(directory, content):
    directory.path.mkdir(parents=True)
    _file(directory).write_text(content)
    with pytest.raises(InputError, match="is not the log of a training"):
        TrainingLog(directory)


def test_a_run_of_many_notes_is_one_entry(directory):
    log = TrainingLog(directory)
    log.begin(3, FACTS)
    for step in (4, 5, 6):
        log.note(step)
    (run,) = json.loads(_file(directory).read_text())["runs"]
    assert (run["first_step"], run["last_step"]) == (3, 6)
