"""Entries of scores.json, and the log of a training."""

import itertools

import pytest

from export.common.errors import InputError
from trainers.scores.score_records import TrainingLog, add_record

ONE = {
    "metric": "BLEU",
    "score": 27.3,
    "signature": "tok:13a",
    "dataset": "text:x",
    "split": "test",
    "sentences": 8,
    "references": 8,
    "reference_length": 70,
    "beam_size": 4,
    "alpha": 0.6,
    "length_penalty": "gnmt",
    "step": 10,
    "weights": "the last step",
}


def test_the_same_evaluation_is_replaced_and_another_added():
    first, other = ONE | {"perplexity": 4.0}, ONE | {"split": "dev"}
    changed = ONE | {"score": 28.0}
    assert add_record([first, other], changed) == [changed, other]
    # With an equal score, what another command measured stays.
    again = ONE | {"date": "2026-01-01"}
    assert add_record([first], again) == [again | {"perplexity": 4.0}]
    for name in ONE.keys() - {"score"}:
        other = ONE | {name: "another"}
        assert add_record([ONE], other) == [ONE, other]


def test_times_are_summed_over_the_runs(directory, monkeypatch):
    facts = {"command": "python -m x", "date": "2026-01-01"}
    for first, last, seconds in ((0, 10, 5.0), (10, 25, 7.5)):
        log = TrainingLog(directory)
        log.start_run(first, facts | {"hardware": "AB"[first // 10]})
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


def test_a_missing_log_is_empty_and_a_damaged_one_refused(directory):
    log = TrainingLog(directory)
    assert (log.weights, log.summary()) == ({}, {})
    assert not directory.path.exists()
    directory.path.mkdir(parents=True)
    for content in (
        *("", "[]", "{}", '{"runs": [{}], "weights": {}}'),
        '{"runs": [], "weights": {"step": "9"}}',
        '{"runs": [1], "weights": {}}',
    ):
        (directory.path / "training.json").write_text(content)
        with pytest.raises(InputError, match="training.json"):
            TrainingLog(directory)
