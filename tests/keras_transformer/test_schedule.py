"""The learning-rate schedule against formula 3."""

import dataclasses

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.schedule import update_schedule
from tests.keras_transformer import reference

STEPS = [1, 2, 3999, 4000, 4001, 100_000, 300_000]


@pytest.mark.parametrize(
    "d_model, warmup, scale",
    [
        (512, 4000, 1.0),
        (1024, 16_000, 5.0),
        (128, 2000, 2.5298221281347035),
    ],
)
@pytest.mark.parametrize("step", STEPS)
def test_equals_the_formula(step, d_model, warmup, scale):
    schedule = kt.TransformerSchedule(d_model, warmup, scale)
    expected = reference.learning_rate(step, d_model, warmup, scale)
    for asked in (step, keras.ops.convert_to_tensor(step, "int32")):
        actual = float(schedule(asked))
        assert abs(actual - expected) <= 1e-7
        assert abs(actual - expected) <= 1e-6 * expected


def test_by_hand():
    """512^-0.5 = 0.0441942 and 4000^-1.5 = 3.95285e-6."""
    schedule = kt.TransformerSchedule(512)
    assert float(schedule(1)) == pytest.approx(1.746928e-7, rel=1e-6)
    assert float(schedule(4000)) == pytest.approx(6.987712e-4, rel=1e-6)
    assert float(schedule(100_000)) == pytest.approx(1.397542e-4, rel=1e-6)


def test_rises_then_falls():
    schedule = kt.TransformerSchedule(64, warmup_steps=10)
    rates = [float(schedule(step)) for step in range(1, 31)]
    assert np.argmax(rates) == 9
    assert (np.diff(rates[:10]) > 0).all()
    assert (np.diff(rates[9:]) < 0).all()


def test_step_0_gets_the_rate_of_step_1():
    schedule = kt.TransformerSchedule(512)
    assert float(schedule(0)) == float(schedule(1)) > 0


def test_survives_serialisation():
    schedule = kt.TransformerSchedule(64, warmup_steps=7, scale=3.0)
    saved = keras.optimizers.schedules.serialize(schedule)
    again = keras.optimizers.schedules.deserialize(saved)
    assert isinstance(again, kt.TransformerSchedule)
    assert again.get_config() == schedule.get_config()
    optimizer = keras.optimizers.Adam(schedule)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert float(again.learning_rate) == float(schedule(1))


@pytest.mark.parametrize(
    "field", [each.name for each in dataclasses.fields(kt.TransformerConfig)]
)
def test_what_a_configuration_takes_its_schedule_takes(field):
    config = kt.TransformerConfig.preset("tiny", vocabulary_size=9)
    for value in (0, 1, 2**31 - 1, 1e-30, 1e30):
        try:
            changed = config.replace(**{field: value})
        except ValueError:
            continue
        schedule = update_schedule(changed)
        rates = [float(schedule(step)) for step in (0, 1, 10**7)]
        assert np.isfinite(rates).all()
