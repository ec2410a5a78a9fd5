"""Files that are not what was written, or not for this model."""

import gc

import keras
import numpy as np
import pytest
from absl import logging

from export.common.errors import InputError
from tests.trainers.checkpoint_models import (
    HISTORIES,
    fill,
    new_model,
    same,
    values_of,
)

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


@pytest.mark.parametrize("kept", [0.0, 0.2, 0.6, 0.99])
def test_a_truncated_one_is_passed_over(saved, kept, caplog):
    checkpoints, model, values = saved
    path = checkpoints.path(30)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert checkpoints.restore_latest(model) == (20, HISTORIES[20])
    assert same(values_of(model), values[20])
    assert f"Passing over the damaged {path}" in caplog.text


def test_one_that_lacks_an_array_is_passed_over(saved, caplog):
    """Half of it copied by a tool that knows archives, say."""
    checkpoints, model, values = saved
    path = checkpoints.path(30)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in [*arrays]:
        left = {each: arrays[each] for each in arrays if each != name}
        np.savez(path, **left)
        assert checkpoints.restore_latest(model) == (20, HISTORIES[20])
        assert same(values_of(model), values[20])
    assert f"Passing over the damaged {path}" in caplog.text


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
    """What happened where neither all of step 30 nor of step 20 came back."""
    checkpoints, model, values = saved
    surprises = {}
    for place, damaged in contents:
        checkpoints.path(30).write_bytes(damaged)
        try:
            step, history = checkpoints.restore_latest(model)
        except Exception as error:
            surprises[place] = f"{type(error).__name__}: {error}"
            continue
        right = same(values_of(model), values[step])
        if not right or history != HISTORIES[step]:
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
    before = fill(model, SEED)
    with pytest.raises(InputError, match="All checkpoints in .* are damaged"):
        checkpoints.restore_latest(model)
    assert same(values_of(model), before)


def test_pickled_arrays_are_never_loaded(saved):
    checkpoints, model, _ = saved
    np.savez(checkpoints.path(40), step=np.array([{}], object))
    assert checkpoints.restore_latest(model).step == 30


def test_an_archive_that_is_no_checkpoint_is_passed_over(saved):
    checkpoints, model, _ = saved
    np.savez(checkpoints.path(40), x=np.ones(3))
    assert checkpoints.restore_latest(model).step == 30


@pytest.mark.parametrize("other", ["shape", "more"])
def test_one_of_another_model_is_refused(saved, other):
    checkpoints, model, _ = saved
    if other == "shape":
        checkpoints.save(new_model(units=4), 40)
    else:
        more = keras.Sequential([model, keras.layers.Dense(1)])
        more.build((None, 2))
        more.compile(optimizer="adam", loss="mse")
        checkpoints.save(more, 40)
    before = fill(model, SEED)
    with pytest.raises(InputError, match="step-00000040.npz is a check") as e:
        checkpoints.restore_latest(model)
    assert "\n" not in str(e.value)
    assert same(values_of(model), before)


def test_a_damaged_one_is_not_averaged(saved):
    checkpoints, model, _ = saved
    checkpoints.path(20).write_bytes(b"PK")
    assert checkpoints.average(model, 2) == [10, 30]
