"""The learning-rate schedules against formula 3."""

import keras
import pytest

import keras_transformer as kt
from keras_transformer.schedule import update_schedule
from tests.keras_transformer import reference


@pytest.mark.parametrize(
    "d_model, warmup, scale",
    [(512, 4000, 1.0), (1024, 16_000, 5.0), (128, 2000, 2.5298221281347035)],
)
def test_equals_the_formula(d_model, warmup, scale):
    schedule = kt.TransformerSchedule(d_model, warmup, scale)
    for step in (1, 2, 3999, 4000, 4001, 100_000, 300_000):
        expected = reference.learning_rate(step, d_model, warmup, scale)
        for given in (step, keras.ops.convert_to_tensor(step, "int32")):
            assert float(schedule(given)) == pytest.approx(expected, 1e-6)
    assert float(schedule(0)) == float(schedule(1))


def test_the_last_steps_fall_along_a_line():
    """64^-0.5 = 0.125; the line is 8/8 at step 33 and 1/8 at step 40."""
    schedule = kt.Cooldown(kt.TransformerSchedule(64, 10), 40, 7)
    for step in range(1, 41):
        expected = reference.learning_rate(step, 64, 10)
        expected *= min(1.0, (41 - step) / 8)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-6)
    assert [float(schedule(step)) for step in (41, 42, 1000)] == [0.0] * 3


@pytest.mark.parametrize(
    "schedule",
    [
        kt.TransformerSchedule(64, warmup_steps=7, scale=3.0),
        kt.Cooldown(kt.TransformerSchedule(64, 10), 40, 7),
    ],
)
def test_survives_serialization(schedule):
    optimizer = keras.optimizers.Adam(schedule)
    saved = keras.optimizers.serialize(optimizer)
    again = keras.optimizers.deserialize(saved)._learning_rate
    assert type(again) is type(schedule)
    assert again.get_config() == schedule.get_config()
    for step in (1, 35, 40):
        assert float(again(step)) == float(schedule(step))


def test_the_first_update_has_the_rate_of_step_1():
    config = kt.TransformerConfig.preset("base", cooldown_steps=10)
    expected = kt.TransformerSchedule(512)
    for updates in (0, 7):
        found = float(update_schedule(config)(updates))
        assert found == pytest.approx(float(expected(updates + 1)))
