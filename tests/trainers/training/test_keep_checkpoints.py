import math
import types

import pytest

from export.common.errors import InputError
from trainers.training import callbacks
from trainers.training.callbacks import SaveCheckpoints, StepCounter


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now.seconds)
    return now


class _Worker:
    """One process of a training, with what it saved."""

    def __init__(self, first=0, last=10**9, saves=True, **settings):
        self.saved, self.stops = [], []
        self.counter = StepCounter(first, last)
        self.model = types.SimpleNamespace(
            stop_training=False, signal_stop_flag=0.0, time_stop_flag=0.0
        )
        defaults = {"every_steps": 0, "every_minutes": 0, "stop_time": None}
        self.keeper = SaveCheckpoints(
            self.counter,
            (lambda: self.saved.append(self.counter.step)) if saves else list,
            (lambda: self.stops.append(self.counter.step)) if saves else list,
            **(defaults | settings),
        )
        for callback in (self.counter, self.keeper):
            callback.set_model(self.model)


def _step(workers, **logs):
    """A step of all workers: what each voted is added up and told to all."""
    for worker in workers:
        worker.keeper.on_train_batch_begin(0)
    votes = {
        "signal": sum(worker.model.signal_stop_flag for worker in workers),
        "time_up": sum(worker.model.time_stop_flag for worker in workers),
    }
    for worker in workers:
        worker.counter.on_train_batch_end(0, logs)
        worker.keeper.on_train_batch_end(0, {"loss": 1.0, **votes, **logs})


def _run(clock, steps, seconds_a_step=1.0, **settings):
    """Goes through steps as fit does; returns (saved, last step)."""
    worker = _Worker(**settings)
    for _ in range(steps):
        clock.seconds += seconds_a_step
        _step([worker])
        if worker.model.stop_training:
            break
    return worker.saved, worker.counter.step


def test_every_so_many_steps_counted_from_the_very_first(clock):
    assert _run(clock, 10, every_steps=3) == ([3, 6, 9], 10)
    # Gone on from step 4, the checkpoints still are those of 6 and 9.
    assert _run(clock, 7, every_steps=3, first=4) == ([6, 9], 11)


def test_every_so_many_minutes(clock):
    saved, _ = _run(clock, 10, seconds_a_step=25, every_minutes=1)
    assert saved == [3, 6, 9]


def test_a_save_by_steps_restarts_the_minutes(clock):
    saved, _ = _run(clock, 7, seconds_a_step=25, every_minutes=1, every_steps=2)
    assert saved == [2, 4, 6]


def test_nothing_is_saved_in_between_when_both_are_off(clock):
    assert _run(clock, 50) == ([], 50)


def test_the_last_step_is_saved_once(clock):
    assert _run(clock, 99, last=6, every_steps=3) == ([3, 6], 6)
    assert _run(clock, 99, last=7, every_steps=3) == ([3, 6, 7], 7)


def test_whoever_stops_fit_the_step_is_saved(clock):
    """A plateau, say, found by a callback before this one."""
    worker = _Worker()
    _step([worker])
    worker.model.stop_training = True
    _step([worker])
    assert worker.saved == [2]
    assert not worker.keeper.interrupted


def test_time_is_up_for_all_after_the_same_step(clock):
    """Clocks differ; the vote of the first counts for all."""
    workers = [_Worker(stop_time=clock.seconds + n) for n in (9.5, 4.5, 99)]
    for _ in range(20):
        clock.seconds += 1
        _step(workers)
        if workers[0].model.stop_training:
            break
    assert [worker.model.stop_training for worker in workers] == [True] * 3
    assert [worker.saved for worker in workers] == [[5]] * 3
    assert not any(worker.keeper.interrupted for worker in workers)


def test_without_a_time_limit_it_is_never_up(clock):
    assert _run(clock, 50, seconds_a_step=1e6) == ([], 50)


@pytest.mark.parametrize("asked", [0, 1])
def test_asked_to_stop_all_workers_save_after_the_same_step(clock, asked):
    workers = [_Worker(), _Worker(saves=False)]
    for _ in range(3):
        _step(workers)
    workers[asked].keeper.stop()
    assert not workers[asked].model.stop_training
    _step(workers)
    assert [worker.model.stop_training for worker in workers] == [True] * 2
    assert [worker.keeper.interrupted for worker in workers] == [True] * 2
    # The other writes none.
    assert [worker.stops for worker in workers] == [[4], []]
    assert [worker.saved for worker in workers] == [[], []]


def test_a_stop_asked_for_during_a_save_is_heard_too(clock):
    worker = _Worker(every_steps=2)
    _step([worker])
    _step([worker])
    worker.keeper.stop()
    _step([worker])
    assert (worker.saved, worker.stops) == ([2], [3])
    assert worker.keeper.interrupted


def _plateau(worker):
    worker.model.stop_training = True


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({"every_steps": 4}, None),
        ({"last": 4}, None),
        ({}, _plateau),
        ({"every_minutes": 0.01}, None),
        ({"stop_time": 0.0}, None),
    ],
)
def test_a_signal_at_a_step_that_is_saved_anyway(clock, settings, before):
    """It is one of those that a training never stopped would have saved."""
    worker = _Worker(first=3, **settings)
    clock.seconds += 1
    worker.keeper.stop()
    if before:
        before(worker)
    _step([worker])
    assert (worker.saved, worker.stops) == ([4], [])
    assert worker.keeper.interrupted
    assert worker.model.stop_training


def test_a_worker_that_writes_none_still_stops_at_the_last_step(clock):
    assert _run(clock, 99, last=6, every_steps=3, saves=False) == ([], 6)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_diverged_training_ends_and_is_not_saved(loss):
    worker = _Worker(every_steps=1)
    _step([worker])
    with pytest.raises(InputError, match="step 2 is not a finite number"):
        _step([worker], loss=loss)
    assert worker.saved == [1]


def test_a_full_disk_ends_fit(clock):
    def full():
        raise InputError("Cannot write")

    worker = _Worker()
    keeper = SaveCheckpoints(worker.counter, full, full, 1, 0, None)
    keeper.set_model(worker.model)
    with pytest.raises(InputError, match="Cannot write"):
        keeper.on_train_batch_end(0, {"loss": 1.0})
