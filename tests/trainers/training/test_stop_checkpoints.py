"""What a signal stopped is gone on from, and leaves no trace in the end."""

import pytest

from tests.damage import flip_bit
from tests.trainers.checkpoint_models import fill, new_model, same, values_of

HISTORY = [{"step": 30, "loss": 1.0}]


def _names(checkpoints):
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_training_goes_on_from_it(saved):
    checkpoints, model, _ = saved
    stopped = fill(model, 35)
    checkpoints.save_stop(model, 35, HISTORY)
    other = new_model()
    assert checkpoints.restore_latest(other) == (35, HISTORY)
    assert same(values_of(other), stopped)


def test_a_damaged_one_is_passed_over(saved):
    checkpoints, model, values = saved
    checkpoints.save_stop(model, 35, HISTORY)
    path = checkpoints.stop_path(35)
    flip_bit(path)
    other = new_model()
    assert checkpoints.restore_latest(other).step == 30
    assert same(values_of(other), values[30])


def test_it_does_not_go_into_the_average(saved):
    checkpoints, model, _ = saved
    fill(model, 35)
    checkpoints.save_stop(model, 35, HISTORY)
    assert checkpoints.steps() == [10, 20, 30]
    assert checkpoints.average(model, 2) == [20, 30]


def test_it_takes_the_place_of_no_other(saved):
    checkpoints, model, _ = saved
    checkpoints.save_stop(model, 35, HISTORY)
    assert checkpoints.steps() == [10, 20, 30]


@pytest.mark.parametrize("step", [36, 40])
def test_the_next_one_that_is_saved_removes_it(saved, step):
    checkpoints, model, _ = saved
    checkpoints.save_stop(model, 35, HISTORY)
    checkpoints.save(model, step, HISTORY)
    assert _names(checkpoints) == [
        f"step-000000{each}.npz" for each in (20, 30, step)
    ]


def test_stopped_again_the_later_one_is_kept(saved):
    checkpoints, model, _ = saved
    checkpoints.save_stop(model, 35, HISTORY)
    checkpoints.save_stop(model, 36, HISTORY)
    assert not checkpoints.stop_path(35).exists()
    assert checkpoints.stop_path(36).exists()
