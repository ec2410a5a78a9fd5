"""The end of a learning-rate schedule against its formula."""

import keras
import pytest

import keras_transformer as kt
from tests.keras_transformer import reference

WARMUP, LAST, COOLDOWN = 10, 40, 7


@pytest.fixture
def schedule():
    return kt.Cooldown(kt.TransformerSchedule(64, WARMUP), LAST, COOLDOWN)


@pytest.mark.parametrize("step", range(1, LAST + 1))
def test_equals_the_formula(schedule, step):
    expected = reference.learning_rate(step, 64, WARMUP)
    expected *= min(1.0, (LAST + 1 - step) / (COOLDOWN + 1))
    for asked in (step, keras.ops.convert_to_tensor(step, "int32")):
        assert float(schedule(asked)) == pytest.approx(expected, rel=1e-6)


def test_by_hand(schedule):
    """64^-0.5 = 0.125; the line is 8/8 at step 33 and 1/8 at step 40."""
    assert float(schedule(33)) == pytest.approx(0.125 / 33**0.5, rel=1e-6)
    assert float(schedule(37)) == pytest.approx(0.0625 / 37**0.5, rel=1e-6)
    assert float(schedule(40)) == pytest.approx(0.125 / 8 / 40**0.5, rel=1e-6)


def test_there_is_no_rate_after_the_end(schedule):
    assert [float(schedule(step)) for step in (41, 42, 1000)] == [0.0] * 3


def test_survives_serialisation(schedule):
    saved = keras.optimizers.schedules.serialize(schedule)
    again = keras.optimizers.schedules.deserialize(saved)
    assert isinstance(again, kt.Cooldown)
    assert again.get_config() == schedule.get_config()
    for step in (1, 35, 40):
        assert float(again(step)) == float(schedule(step))
