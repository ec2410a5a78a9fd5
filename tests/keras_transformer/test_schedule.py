"""The learning-rate schedules against formula 3."""

import keras
import numpy as np
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


def test_by_hand():
    """512^-0.5 = 0.0441942 and 4000^-1.5 = 3.95285e-6."""
    schedule = kt.TransformerSchedule(512)
    assert float(schedule(1)) == pytest.approx(1.746928e-7, rel=1e-6)
    assert float(schedule(4000)) == pytest.approx(6.987712e-4, rel=1e-6)
    assert float(schedule(100_000)) == pytest.approx(1.397542e-4, rel=1e-6)
    assert float(schedule(0)) == float(schedule(1)) > 0


def test_the_last_steps_fall_along_a_line():
    """64^-0.5 = 0.125; the line is 8/8 at step 33 and 1/8 at step 40."""
    schedule = kt.Cooldown(kt.TransformerSchedule(64, 10), 40, 7)
    for step in range(1, 41):
        expected = reference.learning_rate(step, 64, 10)
        expected *= min(1.0, (41 - step) / 8)
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-6)
    assert float(schedule(37)) == pytest.approx(0.0625 / 37**0.5, rel=1e-6)
    assert float(schedule(40)) == pytest.approx(0.125 / 8 / 40**0.5, rel=1e-6)
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


@pytest.mark.parametrize(
    "field",
    ["d_model", "warmup_steps", "learning_rate_scale", "cooldown_steps"],
)
def test_every_valid_configuration_has_a_finite_schedule(field):
    config = kt.TransformerConfig.preset("tiny", vocabulary_size=9)
    for value in (0, 1, 2**31 - 1, 1e-30, 1e30):
        try:
            changed = config.replace(**{field: value})
        except ValueError:
            continue
        schedule = update_schedule(changed)
        rates = [float(schedule(step)) for step in (0, 1, 10**7)]
        assert np.isfinite(rates).all()


def test_the_first_update_has_the_rate_of_step_1():
    config = kt.TransformerConfig.preset("base", cooldown_steps=10)
    expected = kt.TransformerSchedule(512)
    for updates in (0, 7):
        found = float(update_schedule(config)(updates))
        assert found == pytest.approx(float(expected(updates + 1)))
