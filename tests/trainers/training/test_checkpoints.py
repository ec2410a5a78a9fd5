import errno
import math
import resource

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.trainers.checkpoint_models import fill, new_model, same, values_of

SEED = 5


def _bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_checkpoints_training_begins_at_step_0(checkpoints):
    model = new_model()
    before = fill(model, SEED)
    assert checkpoints.restore_latest(model) == (0, [])
    assert checkpoints.steps() == []
    assert same(values_of(model), before)
    assert not checkpoints.folder.exists()


def test_the_latest_comes_back_into_another_model(saved):
    checkpoints, _, values = saved
    other = new_model()
    fill(other, SEED)
    assert checkpoints.restore_latest(other).step == 30
    assert same(values_of(other), values[30])


HISTORIES = st.lists(
    st.fixed_dictionaries(
        {
            "step": st.integers(0, 10**9),
            "loss": st.floats(allow_nan=False),
            "perplexity": st.floats(allow_nan=False),
        }
    )
)


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(HISTORIES)
def test_the_measures_so_far_come_back(checkpoints, history):
    """Every float to its last bit; each example takes the place of the one
    before.
    """
    model = new_model()
    checkpoints.save(model, 1, history)
    assert checkpoints.restore_latest(model) == (1, history)


def test_a_loss_that_was_no_number_comes_back(checkpoints):
    model = new_model()
    checkpoints.save(model, 1, [{"step": 1, "loss": math.nan}])
    ((measure,),) = checkpoints.restore_latest(model)[1:]
    assert math.isnan(measure["loss"])


def test_each_checkpoint_has_the_measures_of_its_own_time(checkpoints):
    """The list is one and the same, and grows while fit runs."""
    model, history = new_model(), []
    for step in (1, 2, 3):
        history.append({"step": step, "loss": 1 / step})
        checkpoints.save(model, step, history)
    checkpoints.path(3).unlink()
    restored = checkpoints.restore_latest(model)
    assert (restored.step, restored.history) == (2, history[:2])


def test_as_many_as_asked_for_are_kept_and_they_are_the_latest(checkpoints):
    model = new_model()
    for step in (5, 99_999_999, 100_000_000, 20, 1_000_000_000, 40):
        checkpoints.save(model, step)
    # By number, not by name or by time.
    expected = [99_999_999, 100_000_000, 1_000_000_000]
    assert checkpoints.steps() == expected
    assert len(list(checkpoints.folder.iterdir())) == 3


def test_what_else_lies_in_the_folder_is_left_alone(saved):
    checkpoints, model, _ = saved
    for name in (".hidden", "step-1.npz", "best.npz", "notes"):
        (checkpoints.folder / name).write_bytes(b"mine")
    checkpoints.save(model, 40)
    assert checkpoints.steps() == [20, 30, 40]
    assert len(list(checkpoints.folder.iterdir())) == 7


def test_what_a_killed_process_left_half_written_is_cleared(saved):
    """SIGKILL leaves nobody to remove its temporary file."""
    checkpoints, model, _ = saved
    left = checkpoints.folder / f".77.{checkpoints.path(40).name}"
    left.write_bytes(b"half of it")
    assert checkpoints.restore_latest(model).step == 30
    checkpoints.save(model, 50)
    assert checkpoints.steps() == [20, 30, 50]
    assert not left.exists()


def test_the_step_is_in_the_file(saved):
    checkpoints, _, _ = saved
    with np.load(checkpoints.path(20)) as file:
        assert file["step"] == 20


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_the_average_is_numpys_mean_in_float64(saved, count):
    checkpoints, model, values = saved
    before = values_of(model)
    used = checkpoints.average(model, count)
    assert used == [10, 20, 30][-count:]
    weights = len(model.weights)
    for place, actual in enumerate(values_of(model)):
        if place < weights:
            arrays = [values[step][place].astype(np.float64) for step in used]
            expected = np.mean(arrays, axis=0).astype(np.float32)
            np.testing.assert_array_max_ulp(actual, expected, maxulp=1)
        else:
            assert (actual == before[place]).all()


def test_earlier_ones_stay_out_of_the_average(saved):
    checkpoints, model, _ = saved
    assert checkpoints.average(model, 9, first=20) == [20, 30]
    assert checkpoints.average(model, 1, first=20) == [30]


def test_the_average_loses_nothing_to_rounding(checkpoints):
    """In float32 the sum of these would be 0."""
    model = new_model()
    for step, value in enumerate((1e8, 3.0, -1e8)):
        for weight in model.weights:
            weight.assign(np.full(weight.shape, value, np.float32))
        checkpoints.save(model, step)
    checkpoints.average(model, 3)
    for weight in model.weights:
        assert (weight.numpy() == 1.0).all()


def _full_disk(monkeypatch):
    """np.savez writes something, then the disk is full."""

    def savez(path, **arrays):
        del arrays
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", savez)


def test_a_full_disk_leaves_the_earlier_ones_whole(saved, monkeypatch):
    checkpoints, model, values = saved
    before = _bytes(checkpoints.folder)
    _full_disk(monkeypatch)
    with pytest.raises(InputError, match="No space left on device") as caught:
        checkpoints.save(model, 40)
    assert "\n" not in str(caught.value)
    assert str(checkpoints.path(40)) in str(caught.value)
    assert _bytes(checkpoints.folder) == before
    assert checkpoints.restore_latest(model).step == 30
    assert same(values_of(model), values[30])


@pytest.fixture
def file_size_limit():
    """The system refuses to make any file longer than 600 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_refused_in_the_middle_leaves_nothing(saved, file_size_limit):
    checkpoints, model, _ = saved
    before = _bytes(checkpoints.folder)
    assert checkpoints.path(30).stat().st_size > 1200
    file_size_limit()
    with pytest.raises(InputError, match="File too large"):
        checkpoints.save(model, 40)
    assert _bytes(checkpoints.folder) == before


def test_an_interrupted_write_leaves_nothing(saved, monkeypatch):
    checkpoints, model, _ = saved
    before = _bytes(checkpoints.folder)

    def interrupted(path, **arrays):
        del arrays
        path.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(model, 40)
    assert _bytes(checkpoints.folder) == before


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("number", [0, -1])
def test_values_that_are_no_numbers_are_not_saved(saved, bad, number):
    """Neither of the model nor of the optimizer, of whatever kind."""
    checkpoints, model, values = saved
    variable = [*model.weights, *model.optimizer.variables][number]
    variable.assign(np.full(variable.shape, bad))
    for save in (
        checkpoints.save,
        checkpoints.save_best,
        checkpoints.save_stop,
    ):
        with pytest.raises(InputError, match="after step 40 is not a finite"):
            save(model, 40, [])
    assert checkpoints.restore_latest(model).step == 30
    assert same(values_of(model), values[30])
