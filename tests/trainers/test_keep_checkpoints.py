import math
import types

import pytest

from export.errors import InputError
from trainers import keep_checkpoints
from trainers.keep_checkpoints import KeepCheckpoints


class _Saved:
    """Stands for Checkpoints; keeps the steps it is asked to save."""

    def __init__(self):
        self.steps = []

    def save(self, model, step):
        del model
        self.steps.append(step)


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(keep_checkpoints.time, "monotonic", lambda: now.seconds)
    return now


def _run(clock, steps, seconds_a_step=1.0, stop_at=None, **arguments):
    """Goes through steps as fit does; returns (saved, last step)."""
    settings = {
        "first_step": 0,
        "last_step": 10**9,
        "every_steps": 0,
        "every_minutes": 0,
        "stop_time": None,
    }
    saved = _Saved()
    keeper = KeepCheckpoints(saved, **(settings | arguments))
    model = types.SimpleNamespace(stop_training=False)
    keeper.set_model(model)
    for batch in range(steps):
        clock.seconds += seconds_a_step
        if batch == stop_at:
            keeper.stop()
        keeper.on_train_batch_end(batch)
        if model.stop_training:
            break
    return saved.steps, keeper.step


def test_every_so_many_steps_counted_from_the_very_first(clock):
    assert _run(clock, 10, every_steps=3) == ([3, 6, 9], 10)
    # Gone on from step 4, the checkpoints still are those of 6 and 9.
    assert _run(clock, 7, every_steps=3, first_step=4) == ([6, 9], 11)


def test_every_so_many_minutes(clock):
    saved, _ = _run(clock, 10, seconds_a_step=25, every_minutes=1)
    assert saved == [3, 6, 9]


def test_a_save_by_steps_restarts_the_minutes(clock):
    saved, _ = _run(clock, 7, seconds_a_step=25, every_minutes=1, every_steps=2)
    assert saved == [2, 4, 6]


def test_nothing_is_saved_in_between_when_both_are_off(clock):
    assert _run(clock, 50) == ([], 50)


def test_the_last_step_stops_and_is_saved_once(clock):
    assert _run(clock, 99, last_step=6, every_steps=3) == ([3, 6], 6)
    assert _run(clock, 99, last_step=7, every_steps=3) == ([3, 6, 7], 7)


def test_time_is_up_after_the_step_in_which_it_runs_out(clock):
    stop_time = clock.seconds + 4.5
    assert _run(clock, 99, stop_time=stop_time) == ([5], 5)


def test_asked_to_stop_it_finishes_the_step_and_saves(clock):
    assert _run(clock, 99, stop_at=3) == ([4], 4)


def test_save_does_nothing_when_nothing_happened(clock):
    saved = _Saved()
    keeper = KeepCheckpoints(saved, 5, 9, 1, 1, None)
    keeper.set_model(None)
    keeper.save()
    assert saved.steps == []


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_diverged_training_ends_and_is_not_saved(loss):
    saved = _Saved()
    keeper = KeepCheckpoints(saved, 0, 100, 1, 0, None)
    keeper.set_model(types.SimpleNamespace(stop_training=False))
    keeper.on_train_batch_end(0, {"loss": 2.0})
    with pytest.raises(InputError, match="step 2 is not a number"):
        keeper.on_train_batch_end(1, {"loss": loss})
    assert saved.steps == [1]
