import errno
import gc
import resource

import keras
import numpy as np
import pytest
from absl import logging

from export.errors import InputError
from trainers.checkpoints import Checkpoints

SEED = 5

# NumPy leaves a damaged file to the garbage collector to close, which would
# be counted against some later test.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file")


@pytest.fixture(autouse=True)
def _collected():
    yield
    gc.collect()


@pytest.fixture
def quiet():
    """Without the warning of each of a thousand damaged files."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)
    yield
    logging.set_verbosity(before)


def _model(units=3):
    """A model with weights, random state and an optimizer's state."""
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(units),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def _variables(model):
    states = [
        v for v in model.non_trainable_variables if "seed" in v.path.lower()
    ]
    assert states
    return [*model.weights, *states, *model.optimizer.variables]


def _fill(model, seed):
    """Gives every variable a value of its own."""
    generator = np.random.default_rng(seed)
    for variable in _variables(model):
        value = 100 * generator.random(variable.shape)
        variable.assign(value.astype(variable.dtype))
    return _values(model)


def _values(model):
    return [np.array(variable.numpy()) for variable in _variables(model)]


def _same(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))


def _bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints", keep=3)


@pytest.fixture
def saved(checkpoints):
    """(checkpoints, model, the values of steps 10, 20 and 30)."""
    model, values = _model(), {}
    for step in (10, 20, 30):
        values[step] = _fill(model, step)
        checkpoints.save(model, step)
    return checkpoints, model, values


def test_without_checkpoints_training_begins_at_step_0(checkpoints):
    model = _model()
    before = _fill(model, SEED)
    assert checkpoints.restore_latest(model) == 0
    assert checkpoints.steps() == []
    assert _same(_values(model), before)
    assert not checkpoints.folder.exists()


def test_the_latest_comes_back_into_another_model(saved):
    checkpoints, _, values = saved
    other = _model()
    _fill(other, SEED)
    assert checkpoints.restore_latest(other) == 30
    assert _same(_values(other), values[30])


def test_as_many_as_asked_for_are_kept_and_they_are_the_latest(checkpoints):
    model = _model()
    for step in (5, 99_999_999, 100_000_000, 20, 1_000_000_000, 40):
        checkpoints.save(model, step)
    # By number, not by name or by time.
    expected = [99_999_999, 100_000_000, 1_000_000_000]
    assert checkpoints.steps() == expected
    assert len(list(checkpoints.folder.iterdir())) == 3


def test_what_else_lies_in_the_folder_is_left_alone(saved):
    checkpoints, model, _ = saved
    for name in (".77.step-00000050.npz", "step-1.npz", "best.npz", "notes"):
        (checkpoints.folder / name).write_bytes(b"mine")
    checkpoints.save(model, 40)
    assert checkpoints.steps() == [20, 30, 40]
    assert len(list(checkpoints.folder.iterdir())) == 7


def test_the_step_is_in_the_file(saved):
    checkpoints, _, _ = saved
    with np.load(checkpoints.path(20)) as file:
        assert file["step"] == 20


@pytest.mark.parametrize("kept", [0.0, 0.2, 0.6, 0.99])
def test_a_truncated_one_is_passed_over(saved, kept):
    checkpoints, model, values = saved
    path = checkpoints.path(30)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert checkpoints.restore_latest(model) == 20
    assert _same(_values(model), values[20])


def _flipped(whole, first, last, stride):
    """The contents with one bit the other way, at many places."""
    for place in range(first, last, stride):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        yield place, bytes(damaged)


def _directory_start(whole):
    """Where the list of contents at the end of a zip file begins."""
    return whole.index(b"PK\x01\x02")


def _restored_or_passed_over(saved, contents):
    """What happened where neither the right values nor step 20 came back."""
    checkpoints, model, values = saved
    surprises = {}
    for place, damaged in contents:
        checkpoints.path(30).write_bytes(damaged)
        try:
            step = checkpoints.restore_latest(model)
        except Exception as error:
            surprises[place] = f"{type(error).__name__}: {error}"
            continue
        if not _same(_values(model), values[step]):
            surprises[place] = f"wrong values of step {step}"
    return surprises


@pytest.mark.usefixtures("quiet")
def test_a_flipped_bit_in_the_arrays_is_found(saved):
    whole = saved[0].path(30).read_bytes()
    last = 8 * _directory_start(whole)
    contents = _flipped(whole, 0, last, stride=101)
    assert _restored_or_passed_over(saved, contents) == {}


@pytest.mark.usefixtures("quiet")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_flipped_bit_in_the_list_of_contents_is_found(saved):
    whole = saved[0].path(30).read_bytes()
    first = 8 * _directory_start(whole)
    # Two entries of the list and all that follows it.
    for begin, end in (
        (first, first + 8 * 130),
        (8 * (len(whole) - 22), 8 * len(whole)),
    ):
        contents = _flipped(whole, begin, end, stride=3)
        assert _restored_or_passed_over(saved, contents) == {}


def test_when_all_are_damaged_nothing_is_trained_from(saved):
    checkpoints, model, _ = saved
    for step in checkpoints.steps():
        checkpoints.path(step).write_bytes(b"PK")
    before = _fill(model, SEED)
    with pytest.raises(InputError, match="All checkpoints in .* are damaged"):
        checkpoints.restore_latest(model)
    assert _same(_values(model), before)


def test_pickled_arrays_are_never_loaded(saved):
    checkpoints, model, _ = saved
    np.savez(checkpoints.path(40), step=np.array([{}], object))
    assert checkpoints.restore_latest(model) == 30


@pytest.mark.parametrize("other", ["shape", "more", "stray"])
def test_one_of_another_model_is_refused(saved, other):
    checkpoints, model, _ = saved
    if other == "shape":
        checkpoints.save(_model(units=4), 40)
    elif other == "more":
        more = keras.Sequential([model, keras.layers.Dense(1)])
        more.build((None, 2))
        more.compile(optimizer="adam", loss="mse")
        checkpoints.save(more, 40)
    else:
        np.savez(checkpoints.path(40), x=np.ones(3))
    before = _fill(model, SEED)
    with pytest.raises(InputError, match="step-00000040.npz is a check") as e:
        checkpoints.restore_latest(model)
    assert "\n" not in str(e.value)
    assert _same(_values(model), before)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_the_average_is_numpys_mean_in_float64(saved, count):
    checkpoints, model, values = saved
    before = _values(model)
    used = checkpoints.average(model, count)
    assert used == [10, 20, 30][-count:]
    weights = len(model.weights)
    for place, actual in enumerate(_values(model)):
        if place < weights:
            arrays = [values[step][place].astype(np.float64) for step in used]
            expected = np.mean(arrays, axis=0).astype(np.float32)
            np.testing.assert_array_max_ulp(actual, expected, maxulp=1)
        else:
            assert (actual == before[place]).all()


def test_the_average_loses_nothing_to_rounding(checkpoints):
    """In float32 the sum of these would be 0."""
    model = _model()
    for step, value in enumerate((1e8, 3.0, -1e8)):
        for weight in model.weights:
            weight.assign(np.full(weight.shape, value, np.float32))
        checkpoints.save(model, step)
    checkpoints.average(model, 3)
    for weight in model.weights:
        assert (weight.numpy() == 1.0).all()


def test_a_damaged_one_is_not_averaged(saved):
    checkpoints, model, _ = saved
    checkpoints.path(20).write_bytes(b"PK")
    assert checkpoints.average(model, 2) == [10, 30]


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
    assert checkpoints.restore_latest(model) == 30
    assert _same(_values(model), values[30])


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
