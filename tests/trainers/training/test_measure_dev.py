import contextlib
import json
import math

import pytest

from export.common.errors import InputError
from tests.trainers.helpers import made_up_pairs, minute_model, plan_of
from trainers.batches.input_pipeline import evaluation_data
from trainers.training.callbacks import EvaluateDev, StepCounter
from trainers.training.dev_scores import has_plateaued

DATA = object()


class _Model:
    """Its dev losses are given; it keeps what it is asked to evaluate."""

    def __init__(self, losses):
        self.stop_training = False
        self.asked = []
        self._losses = iter(losses)

    averaged_weights = contextlib.nullcontext

    def evaluate(self, data, **arguments):
        self.asked.append((data, arguments))
        loss = next(self._losses)
        return {"loss": loss, "perplexity": 2 * loss, "accuracy": 0.5}


def _run(losses, last=60, every=10, patience=0, history=(), first=0):
    """Goes through steps as fit does; returns (steps made, measure, model)."""
    counter = StepCounter(first, last)
    model = _Model(losses)
    reported = []
    measure = EvaluateDev(
        counter, DATA, 7, every, patience, list(history), reported.append
    )
    measure.set_model(model)
    counter.set_model(model)
    for batch in range(last):
        counter.on_train_batch_end(batch)
        measure.on_train_batch_end(batch)
        if model.stop_training:
            break
    new = measure.history[len(history) :]
    assert reported == new
    assert measure.history[: len(history)] == list(history)
    return counter.step, measure, model


def _steps(measure):
    return [each["step"] for each in measure.history]


def test_every_so_many_steps_and_after_the_last():
    _, measure, model = _run([5, 4, 3], last=25)
    assert measure.history == [
        {"step": step, "loss": loss, "perplexity": 2 * loss, "accuracy": 0.5}
        for step, loss in ((10, 5), (20, 4), (25, 3))
    ]
    arguments = {"steps": 7, "return_dict": True, "verbose": 0}
    assert model.asked == [(DATA, arguments)] * 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_training(bad):
    with pytest.raises(InputError, match="dev loss after step 20 is not a"):
        _run([5, bad, 3])


def test_a_last_step_that_is_one_of_them_is_measured_once():
    _, measure, _ = _run([5, 4], last=20)
    assert _steps(measure) == [10, 20]


def test_gone_on_with_steps_count_from_the_very_first():
    history = [{"step": 10, "loss": 5.0}]
    _, measure, _ = _run([4, 3], first=13, last=30, history=history)
    assert _steps(measure) == [10, 20, 30]


@pytest.mark.parametrize(
    ("losses", "patience", "stopped"),
    [
        # Never, however bad it becomes.
        ([1, 2, 3, 4, 5, 6], 0, 60),
        ([1, 2, 3, 4, 5, 6], 1, 20),
        ([1, 2, 3, 4, 5, 6], 3, 40),
        # As good as the best is not better.
        ([3, 2, 2, 2, 2, 2], 2, 40),
        # A better one begins the count anew.
        ([3, 4, 2, 4, 4, 1], 3, 60),
        ([3, 4, 2, 4, 4, 3], 4, 60),
        # Better than the last, and yet not than the best.
        ([3, 6, 5, 4, 9, 9], 3, 40),
    ],
)
def test_fit_stops_on_a_plateau(losses, patience, stopped):
    step, measure, _ = _run(losses, patience=patience)
    assert step == stopped
    assert has_plateaued(measure.history, patience) is (stopped < 60)


def test_the_patience_outlives_an_interruption():
    history = [{"step": 10, "loss": 1.0}, {"step": 20, "loss": 2.0}]
    step, measure, _ = _run(
        [3, 4, 5], first=20, history=history, patience=2, last=90
    )
    assert step == 30
    assert has_plateaued(measure.history, 2)


@pytest.mark.parametrize("patience", [0, 1])
def test_before_the_first_measure_there_is_no_plateau(patience):
    assert not has_plateaued([], patience)


def test_a_real_model_gives_numbers_that_json_can_hold():
    pairs = made_up_pairs(20)
    plan = plan_of(pairs)
    model = minute_model()
    counter = StepCounter(3, 3)
    measure = EvaluateDev(
        counter,
        evaluation_data(model.distribute_strategy, pairs, plan),
        plan.batches_per_epoch,
        1,
        0,
        [],
        lambda measure: None,
    )
    measure.set_model(model)
    # Measured twice, the whole split each time: the same.
    for _ in range(2):
        measure.on_train_batch_end(0)
    one, other = json.loads(json.dumps(measure.history))
    assert one == other
    assert set(one) == {"step", "loss", "perplexity", "accuracy"}


@pytest.mark.parametrize("name", ["bleu", "f1"])
def test_where_a_score_is_measured_it_decides(name):
    history = [
        {"step": 10, "loss": 3.0, name: 20.0},
        {"step": 20, "loss": 2.0, name: 19.0},
        {"step": 30, "loss": 1.0, name: 20.0},
    ]
    assert has_plateaued(history, 2)
    assert not has_plateaued(history, 3)
    history[2][name] = 20.1
    assert not has_plateaued(history, 1)
    # Begun without it: what was not measured counts as nothing.
    assert not has_plateaued([{"step": 5, "loss": 0.5}, *history], 1)
