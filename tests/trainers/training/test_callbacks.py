"""Callbacks, driven as fit drives them."""

import contextlib
import json
import math
import types

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.trainers.helpers import made_up_pairs, minute_model, plan_of
from trainers.batches.input_pipeline import evaluation_data
from trainers.training import callbacks
from trainers.training.callbacks import (
    EvaluateDev,
    SaveCheckpoints,
    StepCounter,
    TokenMeans,
)

NAMES = ("loss", "perplexity", "accuracy")
# Loss, negative log-probability and accuracy of each token of a batch.
TOKENS = st.tuples(
    st.floats(0, 50), st.floats(0, 80), st.sampled_from([0.0, 1.0])
)


def _metrics(tokens):
    """What a step returns of a batch."""
    loss, plain, accuracy = (
        math.fsum(column) / len(tokens) for column in zip(*tokens)
    )
    return {
        "loss": loss,
        "perplexity": math.exp(plain),
        "accuracy": accuracy,
        "tokens": len(tokens),
        "learning_rate": 0.1,
    }


@given(st.lists(st.lists(TOKENS, min_size=1, max_size=9), min_size=1))
def test_every_token_has_the_same_weight(batches):
    means, read = TokenMeans(), TokenMeans()
    for batch in batches:
        means.add(_metrics(batch))
        read.add(_metrics(batch))
        read.means()
    tokens = [token for batch in batches for token in batch]
    expected = _metrics(tokens)
    assert means.tokens == len(tokens)
    assert means.means() == pytest.approx(
        {name: expected[name] for name in NAMES}, rel=1e-9, abs=1e-12
    )
    # Reading in between counts nothing twice.
    assert read.means() == means.means()


def test_means_by_hand():
    means = TokenMeans()
    assert means.tokens == 0
    assert means.means() == {"loss": 0, "perplexity": 1, "accuracy": 0}
    batch = {"loss": 4, "perplexity": 2, "accuracy": 0.5, "tokens": 3}
    means.add({name: tf.constant(float(n)) for name, n in batch.items()})
    means.add({"loss": 8, "perplexity": 32, "accuracy": 0.1, "tokens": 1})
    # 2 * 2 * 2 * 32 is 4 ** 4.
    expected = {"loss": 5, "perplexity": 4, "accuracy": 0.4}
    assert means.means() == pytest.approx(expected)
    assert all(type(value) is float for value in means.means().values())


def test_adding_a_batch_does_not_wait_for_it():
    class Pending:
        def __float__(self):
            raise AssertionError("waited for")

    TokenMeans().add(dict.fromkeys((*NAMES, "tokens"), Pending()))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_means_that_are_not_finite_stay_so(value):
    means = TokenMeans()
    means.add({**_metrics([(1, 1, 1)]), "loss": value, "perplexity": value})
    assert str(means.means()["loss"]) == str(value)
    assert str(means.means()["perplexity"]) == str(value)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 9))
def test_fit_stops_after_the_last_update(first, left, every):
    counter = StepCounter(first, first + left)
    model = types.SimpleNamespace(stop_training=False)
    counter.set_model(model)
    for batch in range(left):
        assert not model.stop_training and not counter.finished
        # Fit counts from 0 in every run.
        counter.on_train_batch_end(batch)
        assert counter.step == first + batch + 1
        multiple = counter.step % every == 0
        assert counter.is_multiple_of(every) is multiple
        assert counter.is_multiple_of(0) is False
    assert model.stop_training and counter.finished
    assert StepCounter(first + left + 1, first + left).finished


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now.seconds)
    return now


class _Worker:
    """One process of a training, with the steps that it saved."""

    def __init__(self, first=0, last=10**9, **settings):
        self.saved, self.stops = [], []
        self.counter = StepCounter(first, last)
        self.model = types.SimpleNamespace(
            stop_training=False, signal_stop_flag=0.0, time_stop_flag=0.0
        )
        defaults = {"every_steps": 0, "every_minutes": 0, "stop_time": None}
        self.saver = SaveCheckpoints(
            self.counter,
            lambda: self.saved.append(self.counter.step),
            lambda: self.stops.append(self.counter.step),
            **(defaults | settings),
        )
        for callback in (self.counter, self.saver):
            callback.set_model(self.model)


def _step(workers, loss=1.0):
    """A step of all workers, which sums their stop flags."""
    for worker in workers:
        worker.saver.on_train_batch_begin(0)
    logs = {
        "loss": loss,
        "signal": sum(worker.model.signal_stop_flag for worker in workers),
        "time_up": sum(worker.model.time_stop_flag for worker in workers),
    }
    for worker in workers:
        worker.counter.on_train_batch_end(0, logs)
        worker.saver.on_train_batch_end(0, logs)


@pytest.mark.parametrize(
    ("settings", "steps", "seconds", "saved", "last"),
    [
        ({"every_steps": 3}, 10, 1, [3, 6, 9], 10),
        # Resumed at step 4, the checkpoints are still those of 6 and 9.
        ({"every_steps": 3, "first": 4}, 7, 1, [6, 9], 11),
        ({"every_minutes": 1}, 10, 25, [3, 6, 9], 10),
        # A save by steps restarts the minutes.
        ({"every_minutes": 1, "every_steps": 2}, 7, 25, [2, 4, 6], 7),
        ({}, 50, 1e6, [], 50),
        # The last step is saved once.
        ({"every_steps": 3, "last": 6}, 99, 1, [3, 6], 6),
        ({"every_steps": 3, "last": 7}, 99, 1, [3, 6, 7], 7),
    ],
)
def test_when_checkpoints_are_saved(
    clock, settings, steps, seconds, saved, last
):
    worker = _Worker(**settings)
    for _ in range(steps):
        clock.seconds += seconds
        _step([worker])
        if worker.model.stop_training:
            break
    assert (worker.saved, worker.counter.step) == (saved, last)
    assert not worker.saver.interrupted


def test_when_the_time_is_up_all_stop_after_the_same_step(clock):
    """Clocks differ: the first one counts for all."""
    workers = [_Worker(stop_time=clock.seconds + n) for n in (9.5, 4.5, 99)]
    while not workers[0].model.stop_training:
        clock.seconds += 1
        _step(workers)
    assert all(worker.model.stop_training for worker in workers)
    assert [worker.saved for worker in workers] == [[5]] * 3
    assert not any(worker.saver.interrupted for worker in workers)


@pytest.mark.parametrize("receiver", [0, 1])
def test_after_a_signal_all_stop_after_the_same_step(clock, receiver):
    workers = [_Worker(every_steps=2), _Worker(every_steps=2)]
    _step(workers)
    _step(workers)
    workers[receiver].saver.stop()
    assert not workers[receiver].model.stop_training
    _step(workers)
    for worker in workers:
        assert worker.model.stop_training and worker.saver.interrupted
        assert (worker.saved, worker.stops) == ([2], [3])


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
    """The checkpoint is one of an uninterrupted training."""
    worker = _Worker(first=3, **settings)
    clock.seconds += 1
    worker.saver.stop()
    if before:
        before(worker)
    _step([worker])
    assert (worker.saved, worker.stops) == ([4], [])
    assert worker.saver.interrupted and worker.model.stop_training


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_diverged_training_ends_and_is_not_saved(loss):
    worker = _Worker(every_steps=1)
    _step([worker])
    with pytest.raises(InputError, match="step 2 is not a finite number"):
        _step([worker], loss)
    assert worker.saved == [1]


class _Model:
    """Its dev losses are given."""

    averaged_weights = contextlib.nullcontext

    def __init__(self, losses):
        self.stop_training = False
        self._losses = iter(losses)

    def evaluate(self, data, **arguments):
        expected = {"steps": 7, "return_dict": True, "verbose": 0}
        assert (data, arguments) == ("data", expected)
        loss = next(self._losses)
        return {"loss": loss, "perplexity": 2 * loss, "accuracy": 0.5}


def _evaluations(losses, last=60, patience=0, history=(), first=0):
    """Evaluates every 10 steps; returns the history, and the last step."""
    counter, model, reported = StepCounter(first, last), _Model(losses), []
    dev = EvaluateDev(
        counter, "data", 7, 10, patience, [*history], reported.append
    )
    for callback in (counter, dev):
        callback.set_model(model)
    while not model.stop_training:
        counter.on_train_batch_end(0)
        dev.on_train_batch_end(0)
    assert [*history, *reported] == dev.history
    return dev.history, counter.step


def test_dev_is_evaluated_every_so_many_steps_and_after_the_last():
    expected = [
        {"step": step, "loss": loss, "perplexity": 2 * loss, "accuracy": 0.5}
        for step, loss in ((10, 5), (20, 4), (25, 3))
    ]
    assert _evaluations([5, 4, 3], last=25)[0] == expected
    assert _evaluations([5, 4, 3], last=20)[0] == expected[:2]
    resumed, _ = _evaluations([3], first=23, last=25, history=expected[:2])
    assert resumed == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_dev_loss_that_is_not_finite_ends_the_training(bad):
    with pytest.raises(InputError, match="dev loss after step 20 is not a"):
        _evaluations([5, bad, 3])


@pytest.mark.parametrize(
    ("losses", "patience", "stopped"),
    [
        ([1, 2, 3, 4, 5, 6], 0, 60),
        ([1, 2, 3, 4, 5, 6], 1, 20),
        ([1, 2, 3, 4, 5, 6], 3, 40),
        # As good as the best is not better.
        ([3, 2, 2, 2, 2, 2], 2, 40),
        # A better one restarts the count.
        ([3, 4, 2, 4, 4, 1], 3, 60),
        ([3, 4, 2, 4, 4, 3], 4, 60),
        # Better than the last, but not than the best.
        ([3, 6, 5, 4, 9, 9], 3, 40),
    ],
)
def test_a_plateau_ends_the_training(losses, patience, stopped):
    history, step = _evaluations(losses, patience=patience)
    assert step == stopped
    # Also after a resume.
    count = len(history) - 1
    resumed = _evaluations(
        losses[count:],
        patience=patience,
        history=history[:count],
        first=10 * count,
    )
    assert resumed == (history, stopped)


def test_a_real_model_is_evaluated_the_same_each_time():
    pairs = made_up_pairs(20)
    plan = plan_of(pairs)
    model = minute_model()
    dev = EvaluateDev(
        StepCounter(3, 3),
        evaluation_data(model.distribute_strategy, pairs, plan),
        plan.batches_per_epoch,
        1,
        0,
        [],
        lambda evaluation: None,
    )
    dev.set_model(model)
    for _ in range(2):
        dev.on_train_batch_end(0)
    one, other = json.loads(json.dumps(dev.history))
    assert one == other
    assert set(one) == {"step", *NAMES}
