import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.training.callbacks import StepCounter


def _counter(first, last):
    counter = StepCounter(first, last)
    model = types.SimpleNamespace(stop_training=False)
    counter.set_model(model)
    return counter, model


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_fit_is_stopped_after_the_last_update_and_not_before(first, left):
    counter, model = _counter(first, first + left)
    for batch in range(left):
        assert not model.stop_training
        assert not counter.finished
        # Fit counts from 0 in every run.
        counter.on_train_batch_end(batch)
        assert counter.step == first + batch + 1
    assert model.stop_training
    assert counter.finished
    assert (counter.first, counter.last) == (first, first + left)


@pytest.mark.parametrize("step", [7, 8])
def test_a_training_that_is_done_is_finished_at_once(step):
    assert StepCounter(step, 7).finished


@given(st.integers(0, 50), st.integers(1, 9))
def test_one_of_every_so_many_counted_from_the_very_first(first, count):
    counter, _ = _counter(first, 10**9)
    for batch in range(40):
        counter.on_train_batch_end(batch)
        wanted = (first + batch + 1) % count == 0
        assert counter.is_multiple_of(count) is wanted


def test_0_is_never():
    counter, _ = _counter(0, 9)
    assert counter.is_multiple_of(0) is False
    counter.on_train_batch_end(0)
    assert counter.is_multiple_of(0) is False


def test_another_callbacks_stop_stays():
    counter, model = _counter(0, 9)
    model.stop_training = True
    counter.on_train_batch_end(0)
    assert model.stop_training
