"""Callbacks, driven as fit drives them."""

import contextlib
import io
import math
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.trainers import event_files
from trainers.training import callbacks
from trainers.training.callbacks import (
    EvaluateDev,
    Progress,
    SaveCheckpoints,
    StepCounter,
    TokenMeans,
)

NAMES = ("loss", "perplexity", "accuracy")
# Loss, negative log-probability and accuracy of each token of a batch.
TOKENS = st.tuples(
    st.floats(0, 50), st.floats(0, 80), st.sampled_from([0.0, 1.0])
)


class _Pending:
    """A tensor of a step that still runs."""

    def __float__(self):
        raise AssertionError("waited for")


PENDING = dict.fromkeys((*NAMES, "tokens", "learning_rate"), _Pending())


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
        "learning_rate": 3e-4,
    }


@settings(max_examples=40)
@given(st.lists(st.lists(TOKENS, min_size=1, max_size=9), min_size=1))
def test_every_token_has_the_same_weight(batches):
    means, read = TokenMeans(), TokenMeans()
    assert means.means() == {"loss": 0, "perplexity": 1, "accuracy": 0}
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


@pytest.mark.parametrize(("first", "left"), [(0, 7), (1000, 1)])
def test_fit_stops_after_the_last_update(first, left):
    counter = StepCounter(first, first + left)
    model = types.SimpleNamespace(stop_training=False)
    counter.set_model(model)
    for batch in range(left):
        assert not model.stop_training and not counter.finished
        # Fit counts from 0 in every run.
        counter.on_train_batch_end(batch)
        assert counter.step == first + batch + 1
        assert counter.is_multiple_of(3) is (counter.step % 3 == 0)
    assert model.stop_training and counter.finished


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now.seconds)
    return now


# Progress.

# Loss, negative log-probability, accuracy and target tokens of five steps.
STEPS = [
    (6.0, 5.0, 0.0, 100),
    (4.0, 3.0, 0.5, 10),
    (2.0, 1.5, 0.2, 700),
    (3.0, 2.5, 0.1, 1),
    (1.0, 0.5, 0.9, 50),
]


class _Run:
    """Drives Progress as fit does, two seconds a step."""

    def __init__(
        self, folder, clock, first=0, last=1000, every=100, stop_time=None
    ):
        self.stream = io.StringIO()
        self._clock = clock
        self._counter = StepCounter(first, last)
        self._counter.set_model(types.SimpleNamespace(stop_training=False))
        self.progress = Progress(
            self._counter, folder, every, stop_time, self.stream
        )
        self.progress.on_train_begin()

    def steps(self, rows):
        for loss, plain, accuracy, tokens in rows:
            self.step(_metrics([(loss, plain, accuracy)]) | {"tokens": tokens})

    def step(self, logs):
        self._clock.seconds += 2.0
        self._counter.on_train_batch_end(0, logs)
        self.progress.on_train_batch_end(0, logs)

    def lines(self):
        self.progress.on_train_end()
        return self.stream.getvalue().splitlines()


def test_reports_come_early_and_then_every_so_many_steps(tmp_path, clock):
    run = _Run(tmp_path, clock, every=8, first=1200, last=9000)
    run.steps(STEPS[:4] * 4)
    # A step that is not reported is not waited for.
    run.step(PENDING)
    found = [line.partition(":")[0] for line in run.lines()]
    expected = ["1,201", "1,208", "1,210", "1,216"]
    assert found == [f"step {step}/9,000" for step in expected]


def test_means_are_over_tokens_since_the_last_report(tmp_path, clock):
    run = _Run(tmp_path, clock, every=5)
    run.steps(STEPS)
    first, second = run.lines()
    assert first.startswith("step 1/1,000: loss 6.000, perplexity 148.41, ")
    rows = STEPS[1:]
    tokens = sum(row[3] for row in rows)
    loss, plain, accuracy = (
        sum(row[i] * row[3] for row in rows) / tokens for i in range(3)
    )
    # Four steps took eight seconds.
    assert second.startswith(
        f"step 5/1,000: loss {loss:.3f}, perplexity {math.exp(plain):.2f}, "
        f"accuracy {accuracy:.1%}, learning rate 3.00e-04, "
        f"{tokens / 8:,.0f} tokens/s, "
    )
    scalars = event_files.scalars(tmp_path / "train")
    assert {name: values[1] for name, values in scalars.items()} == {
        "loss": (5, pytest.approx(loss)),
        "perplexity": (5, pytest.approx(math.exp(plain))),
        "accuracy": (5, pytest.approx(accuracy)),
        "learning_rate": (5, pytest.approx(3e-4)),
        "tokens_per_second": (5, pytest.approx(tokens / 8)),
    }


def test_the_speed_is_without_the_time_of_evaluations(tmp_path, clock):
    run = _Run(tmp_path, clock, every=5)
    run.steps(STEPS[:3])
    clock.seconds += 1000
    run.progress.report_dev({"step": 3, **dict.fromkeys(NAMES, 1.0)})
    run.steps(STEPS[3:])
    tokens = sum(row[3] for row in STEPS[1:])
    assert f" {tokens / 8:,.0f} tokens/s, " in run.lines()[-1]


def test_evaluations_are_printed_and_written(tmp_path, clock):
    run = _Run(tmp_path, clock)
    run.steps(STEPS[:3])
    dev = {"loss": 2.5, "perplexity": 7.25, "accuracy": 0.375, "bleu": 20.125}
    run.progress.report_dev({"step": 3, **dev})
    assert run.lines()[-1] == (
        "step 3: dev loss 2.500, perplexity 7.25, accuracy 37.5%, BLEU 20.12"
    )
    assert event_files.scalars(tmp_path / "dev") == {
        name: [(3, value)] for name, value in dev.items()
    }


# One step took 2 seconds.
@pytest.mark.parametrize(
    ("last", "stop_after", "left"),
    [(2000, 9e9, "1:06:38"), (10**6, 90.0, "1:28"), (31, 1.0, "0:00")],
)
def test_the_time_left(tmp_path, clock, last, stop_after, left):
    stop_time = clock.seconds + stop_after
    run = _Run(tmp_path, clock, last=last, stop_time=stop_time)
    run.steps([(math.inf, math.inf, 0.0, 5)])
    (line,) = run.lines()
    assert "loss inf, perplexity inf" in line
    assert line.endswith(f", {left} left")


# SaveCheckpoints.


class _Worker:
    """One process of a training, with the steps that it saved."""

    def __init__(self, first=0, last=10**9, **options):
        self.saved, self.stops = [], []
        steps = {"step": self.saved, "stop": self.stops}
        self.counter = StepCounter(first, last)
        self.model = types.SimpleNamespace(
            stop_training=False, signal_stop_flag=0.0, time_stop_flag=0.0
        )
        defaults = {"every_steps": 0, "every_minutes": 0, "stop_time": None}
        self.saver = SaveCheckpoints(
            self.counter,
            lambda prefix: steps[prefix].append(self.counter.step),
            **(defaults | options),
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
    ("options", "steps", "seconds", "saved", "last"),
    [
        ({"every_steps": 3}, 10, 1, [3, 6, 9], 10),
        # Resumed at step 4, the checkpoints are still those of 6 and 9.
        ({"every_steps": 3, "first": 4}, 7, 1, [6, 9], 11),
        # A save by steps restarts the minutes.
        ({"every_minutes": 1, "every_steps": 2}, 7, 25, [2, 4, 6], 7),
        # The last step is saved once.
        ({"every_minutes": 1, "last": 6}, 99, 25, [3, 6], 6),
        ({"every_steps": 3, "last": 7}, 99, 1, [3, 6, 7], 7),
    ],
)
def test_when_checkpoints_are_saved(
    clock, options, steps, seconds, saved, last
):
    worker = _Worker(**options)
    for _ in range(steps):
        clock.seconds += seconds
        _step([worker])
        if worker.model.stop_training:
            break
    assert (worker.saved, worker.counter.step) == (saved, last)
    assert not worker.saver.interrupted


def test_when_the_time_is_up_all_stop_after_the_same_step(clock):
    """Clocks differ: the first one counts for all."""
    workers = [_Worker(stop_time=clock.seconds + n) for n in (9.5, 3.5, 99)]
    while not workers[0].model.stop_training:
        clock.seconds += 1
        _step(workers)
    assert all(worker.model.stop_training for worker in workers)
    assert [worker.saved for worker in workers] == [[5]] * 3
    assert not any(worker.saver.interrupted for worker in workers)


def test_after_a_signal_all_stop_after_the_same_step(clock):
    workers = [_Worker(every_steps=3), _Worker(every_steps=3)]
    for _ in range(3):
        _step(workers)
    workers[1].saver.stop()
    _step(workers)
    # The sums of this step are read after the next one.
    assert not workers[1].model.stop_training
    _step(workers)
    for worker in workers:
        assert worker.model.stop_training and worker.saver.interrupted
        assert (worker.saved, worker.stops) == ([3], [5])


@pytest.mark.parametrize(
    ("options", "plateau"),
    [({"every_steps": 5}, False), ({}, True), ({"stop_time": 0.0}, False)],
)
def test_a_signal_at_a_step_that_is_saved_anyway(clock, options, plateau):
    """The checkpoint is one of an uninterrupted training."""
    worker = _Worker(first=3, **options)
    worker.saver.stop()
    _step([worker])
    worker.model.stop_training = plateau
    _step([worker])
    assert (worker.saved, worker.stops) == ([5], [])
    assert worker.saver.interrupted and worker.model.stop_training


def test_a_diverged_training_ends():
    worker = _Worker()
    _step([worker])
    _step([worker], math.inf)
    with pytest.raises(InputError, match="step 2 is not a finite number"):
        _step([worker])


# EvaluateDev.


class _Model:
    """Its dev losses are given."""

    averaged_weights = contextlib.nullcontext

    def __init__(self, losses):
        self.stop_training = False
        self._losses = iter(losses)

    def evaluate(self, data, steps):
        assert (data, steps) == ("data", 7)
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
    with pytest.raises(InputError, match="dev loss after step 20 is not a"):
        _evaluations([5, math.nan, 3])


@pytest.mark.parametrize(
    ("losses", "patience", "stopped"),
    [
        ([1, 2, 3, 4, 5, 6], 0, 60),
        # As good as the best is not better.
        ([3, 2, 2, 2, 2, 2], 2, 40),
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


def test_translations_are_printed_every_so_many_minutes(clock):
    average, stream = [], io.StringIO()

    def translate(sources):
        assert average == ["used"]
        return [f"{source.upper()} {clock.seconds:g}" for source in sources]

    @contextlib.contextmanager
    def averaged_weights():
        average.append("used")
        yield
        average.clear()

    callback = callbacks.PrintTranslations(translate, ["a b", "c"], 2, stream)
    callback.set_model(types.SimpleNamespace(averaged_weights=averaged_weights))
    start = clock.seconds
    callback.on_train_begin()
    for minutes in (1, 1.9, 2, 3, 3.9, 4.5):
        clock.seconds = start + 60 * minutes
        callback.on_train_batch_end(0)
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    times = [f"{start + 60 * minutes:g}" for minutes in (2, 4.5)]
    assert lines == [
        line
        for time in times
        for line in ("a b", f"-> A B {time}", "c", f"-> C {time}")
    ]
