"""Checkpoints: what is saved, kept, restored, averaged and refused."""

import errno
import gc

import keras
import numpy as np
import pytest
from absl import logging

from export.common.errors import InputError
from tests.damage import flip_bit
from tests.trainers.checkpoint_models import (
    HISTORIES,
    fill,
    new_model,
    same,
    values_of,
)
from tests.trainers.data.memory_corpus import contents
from tests.trainers.training_options import CONFIG
from trainers.training import fit

SEED = 5
HISTORY = [{"step": 30, "loss": 1.0}]
# NumPy leaves a damaged file to the garbage collector to close.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file")


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


def _assert_restores(checkpoints, step, values):
    """Into another model, with other values before."""
    other = new_model()
    fill(other, SEED)
    restored_step, history = checkpoints.restore_latest(other)
    assert restored_step == step
    assert same(values_of(other), values)
    return history


def test_evaluations_are_restored_to_the_last_bit(checkpoints):
    model = new_model()
    assert checkpoints.restore_latest(model) == (0, [])
    assert not checkpoints.folder.exists()
    history = [{"step": 10**9, "loss": value} for value in (0.1, 1e-300, 2 / 3)]
    checkpoints.save(model, 1, history)
    assert checkpoints.restore_latest(model) == (1, history)


def test_the_latest_by_number_are_kept(checkpoints):
    model = new_model()
    for step in (5, 99_999_999, 100_000_000, 20, 1_000_000_000, 40):
        checkpoints.save(model, step)
    assert checkpoints.steps() == [99_999_999, 100_000_000, 1_000_000_000]
    assert len(list(checkpoints.folder.iterdir())) == 3


def test_only_its_own_files_are_removed(saved):
    """Temporary files of a killed process among them."""
    checkpoints, model, _ = saved
    temporary = checkpoints.folder / f".77.{checkpoints.path(40).name}"
    temporary.write_bytes(b"half of it")
    for name in (".hidden", "step-1.npz", "best.npz", "notes"):
        (checkpoints.folder / name).write_bytes(b"other")
    checkpoints.save(model, 40)
    assert checkpoints.steps() == [20, 30, 40]
    assert len(list(checkpoints.folder.iterdir())) == 7
    assert not temporary.exists()


@pytest.mark.parametrize(
    ("cooldown", "step", "first"),
    [
        (0, 900, 0),
        # Of a rate that falls over the last 300, those of the last 100.
        (300, 900, 800),
        (300, 800, 800),
        # It ended before.
        (300, 799, 0),
    ],
)
def test_a_falling_rate_decides_what_is_averaged(cooldown, step, first):
    config = CONFIG.replace(train_steps=900, cooldown_steps=cooldown)
    assert fit._first_step_to_average(config, step) == first


@pytest.mark.parametrize("count", [2, 9])
def test_the_average_is_numpys_mean_in_float64(saved, count):
    checkpoints, model, values = saved
    before = values_of(model)
    used = checkpoints.load_average(model, count)
    assert used == [10, 20, 30][-count:]
    weights = len(model.weights)
    after = values_of(model)
    for number, actual in enumerate(after[:weights]):
        arrays = [values[step][number].astype(np.float64) for step in used]
        expected = np.mean(arrays, axis=0).astype(np.float32)
        np.testing.assert_array_max_ulp(actual, expected, maxulp=1)
    assert same(after[weights:], before[weights:])


def test_earlier_damaged_best_and_stop_checkpoints_are_not_averaged(saved):
    checkpoints, model, _ = saved
    checkpoints.save(model, 35, HISTORY, "best")
    checkpoints.save(model, 36, HISTORY, "stop")
    assert checkpoints.load_average(model, 9, first=20) == [20, 30]
    assert checkpoints.load_average(model, 1, first=20) == [30]
    checkpoints.path(20).write_bytes(b"PK")
    assert checkpoints.load_average(model, 2) == [10, 30]


def test_the_average_loses_nothing_to_rounding(checkpoints):
    """In float32 the sum of these would be 0."""
    model = new_model()
    for step, value in enumerate((1e8, 3.0, -1e8)):
        for weight in model.weights:
            weight.assign(np.full(weight.shape, value, np.float32))
        checkpoints.save(model, step)
    checkpoints.load_average(model, 3)
    assert all((weight.numpy() == 1.0).all() for weight in model.weights)


def test_a_failed_write_leaves_the_earlier_ones(saved, monkeypatch):
    checkpoints, model, values = saved
    before = contents(checkpoints.folder)

    def savez(path, **arrays):
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", savez)
    with pytest.raises(InputError):
        checkpoints.save(model, 40)
    assert contents(checkpoints.folder) == before
    _assert_restores(checkpoints, 30, values[30])


def test_values_that_are_not_finite_are_not_saved(saved):
    checkpoints, model, values = saved
    for variable, bad, kind in (
        (model.weights[0], np.nan, "step"),
        (model.optimizer.variables[-1], np.inf, "best"),
    ):
        before = variable.numpy()
        variable.assign(np.full(variable.shape, bad))
        with pytest.raises(InputError, match="after step 40 is not a finite"):
            checkpoints.save(model, 40, [], kind)
        variable.assign(before)
    _assert_restores(checkpoints, 30, values[30])


# Damaged files.


@pytest.fixture
def quiet():
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)
    yield
    logging.set_verbosity(before)


@pytest.mark.parametrize("share", [0.0, 0.6, 0.99])
def test_a_truncated_one_is_skipped(saved, share, caplog):
    checkpoints, _, values = saved
    path = checkpoints.path(30)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert _assert_restores(checkpoints, 20, values[20]) == HISTORIES[20]
    assert str(path) in caplog.text


@pytest.mark.usefixtures("quiet")
def test_one_without_an_array_or_with_a_pickle_is_skipped(saved):
    checkpoints, model, values = saved
    path = checkpoints.path(30)
    with np.load(path) as file:
        arrays = dict(file)
    for name in arrays:
        np.savez(
            path, **{each: arrays[each] for each in arrays if each != name}
        )
        assert checkpoints.restore_latest(model)[0] == 20
        assert same(values_of(model), values[20])
    np.savez(path, **arrays | {"step": np.array([{}], object)})
    assert checkpoints.restore_latest(model)[0] == 20


@pytest.mark.usefixtures("quiet")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_flipped_bit_is_found(saved):
    """In the arrays and in the zip file's directory."""
    checkpoints, model, values = saved
    path = checkpoints.path(30)
    content = path.read_bytes()
    directory, end = 8 * content.index(b"PK\x01\x02"), 8 * len(content)
    places = [
        *range(0, directory, 307),
        *range(directory, directory + 8 * 130, 7),
        *range(end - 8 * 22, end, 5),
    ]
    for place in places:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        step, history = checkpoints.restore_latest(model)
        assert same(values_of(model), values[step]), place
        assert history == HISTORIES[step], place


@pytest.mark.usefixtures("quiet")
def test_if_all_are_damaged_training_does_not_start_again(saved):
    checkpoints, model, _ = saved
    for step in checkpoints.steps():
        checkpoints.path(step).write_bytes(b"PK")
    before = fill(model, SEED)
    with pytest.raises(InputError, match="All checkpoints in .* are damaged"):
        checkpoints.restore_latest(model)
    assert same(values_of(model), before)


def test_one_of_another_model_is_refused(saved):
    """Of another shape, or with another layer."""
    checkpoints, model, _ = saved
    deeper = keras.Sequential([model, keras.layers.Dense(1)])
    deeper.build((None, 2))
    deeper.compile(optimizer="adam", loss="mse")
    before = fill(model, SEED)
    for wrong in (new_model(units=4), deeper):
        checkpoints.save(wrong, 40)
        with pytest.raises(InputError, match="step-00000040.npz is a check"):
            checkpoints.restore_latest(model)
        assert same(values_of(model), before)


# The best by dev, and those written because of a signal.


def _names(checkpoints):
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_the_best_is_kept_until_a_better_one_comes(checkpoints):
    model = new_model()
    best = fill(model, 10)
    checkpoints.save(model, 10, HISTORY, "best")
    for step in (10, 20, 30, 40, 50):
        checkpoints.save(model, step, HISTORY)
        fill(model, step + 1)
    latest = [f"step-000000{step}.npz" for step in (30, 40, 50)]
    assert _names(checkpoints) == ["best-00000010.npz", *latest]
    assert checkpoints.steps() == [30, 40, 50]
    assert checkpoints.restore_step(model, 10)
    assert same(values_of(model), best)
    checkpoints.save(model, 60, HISTORY, "best")
    assert _names(checkpoints) == ["best-00000060.npz", *latest]
    assert not checkpoints.restore_step(model, 10)


@pytest.mark.parametrize("kind", ["best", "stop"])
def test_training_resumes_from_it_if_it_is_the_latest(saved, kind):
    checkpoints, model, values = saved
    latest = fill(model, 35)
    checkpoints.save(model, 35, HISTORY, kind)
    assert checkpoints.steps() == [10, 20, 30]
    assert _assert_restores(checkpoints, 35, latest) == HISTORY
    flip_bit(checkpoints.path(35, kind))
    _assert_restores(checkpoints, 30, values[30])
    assert not checkpoints.restore_step(model, 35)


def test_the_next_save_removes_those_of_a_signal(saved):
    checkpoints, model, _ = saved
    checkpoints.save(model, 34, HISTORY, "stop")
    checkpoints.save(model, 35, HISTORY, "stop")
    assert _names(checkpoints)[-1] == "stop-00000035.npz"
    assert len(_names(checkpoints)) == 4
    checkpoints.save(model, 36, HISTORY)
    assert _names(checkpoints) == [
        f"step-000000{step}.npz" for step in (20, 30, 36)
    ]
