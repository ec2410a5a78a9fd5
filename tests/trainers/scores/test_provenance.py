import itertools

import pytest

from export.common.errors import InputError
from trainers.scores.provenance import TrainingLog

FACTS = {"command": "python -m x", "hardware": "A", "date": "2026-01-01"}


def test_times_are_summed_over_the_runs(directory, monkeypatch):
    for first, last, seconds in ((0, 10, 5.0), (10, 25, 7.5)):
        log = TrainingLog(directory)
        log.start_run(first, FACTS | {"hardware": "AB"[first // 10]})
        now = itertools.repeat(log._started + seconds)
        monkeypatch.setattr("time.monotonic", now.__next__)
        log.record_step(last - 1)
        log.record_step(last)
        monkeypatch.undo()
    log.record_weights(25, "the last step")
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


def test_a_missing_file_is_an_empty_log_and_is_not_created(directory):
    log = TrainingLog(directory)
    assert (log.weights, log.summary()) == ({}, {})
    assert not directory.path.exists()


def test_a_damaged_file_is_refused(directory):
    directory.path.mkdir(parents=True)
    for content in (
        *("", "[]", "{}", '{"runs": [{}], "weights": {}}'),
        '{"runs": [], "weights": {"step": "9"}}',
        '{"runs": [1], "weights": {}}',
    ):
        (directory.path / "training.json").write_text(content)
        with pytest.raises(InputError, match="training.json"):
            TrainingLog(directory)
