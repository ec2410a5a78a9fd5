import dataclasses

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from keras_transformer.presets import PRESETS
from trainers.training.config_flags import make_config


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_made(preset):
    assert make_config(preset, []) == kt.TransformerConfig.preset(preset)
    config = make_config(preset, ["vocabulary_size=99"])
    assert config.vocabulary_size == 99
    for name, value in PRESETS[preset].items():
        if name != "vocabulary_size":
            assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("num_layers=3", 3),
        ("dropout=0", 0.0),
        ("dropout=.25", 0.25),
        ("adam_epsilon=1e-8", 1e-8),
        ("norm=pre", "pre"),
        ("attention_bias=false", False),
        ("attention_bias=False", False),
        ("attention_bias=0", False),
        ("attention_bias=true", True),
        ("attention_bias=1", True),
    ],
)
def test_values_take_the_type_of_their_field(assignment, value):
    config = make_config("tiny", [assignment])
    actual = getattr(config, assignment.partition("=")[0])
    assert actual == value
    assert type(actual) is type(value)


def test_every_field_can_be_set():
    config = kt.TransformerConfig.preset("tiny")
    fields = dataclasses.asdict(config)
    assert make_config("tiny", [f"{k}={v}" for k, v in fields.items()]) == (
        config
    )


def test_the_last_of_several_values_counts():
    config = make_config("tiny", ["dropout=0.5", "d_ff=7", "dropout=0.2"])
    assert (config.dropout, config.d_ff) == (0.2, 7)


@pytest.mark.parametrize(
    ("preset", "assignment", "message"),
    [
        ("tiniest", "d_ff=7", "tiniest"),
        ("tiny", "d_fff=7", "d_fff"),
        ("tiny", "dropout", "--set=dropout"),
        ("tiny", "=7", "--set==7"),
        ("tiny", "dropout=", "dropout must be of type float"),
        ("tiny", "dropout=high", "dropout must be of type float"),
        ("tiny", "dropout=1", "dropout"),
        ("tiny", "num_layers=2.0", "num_layers must be of type int"),
        ("tiny", "num_layers=0", "num_layers"),
        ("tiny", "attention_bias=maybe", "attention_bias must be of type bool"),
        ("tiny", "norm=middle", "norm"),
        ("tiny", "d_model=7", "d_model"),
        ("tiny", "vocabulary_size=4", "vocabulary_size"),
    ],
)
def test_what_is_wrong_is_one_line(preset, assignment, message):
    with pytest.raises(InputError, match=message) as caught:
        make_config(preset, [assignment])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_default_cooldown_is_scaled_and_a_given_one_refused(preset):
    steps = 10
    config = make_config(preset, [], train_steps=steps)
    assert config == make_config(preset, [f"train_steps={steps}"])
    assert config.train_steps == steps >= config.cooldown_steps
    with pytest.raises(InputError, match=f"at most train_steps, {steps}"):
        make_config(preset, ["cooldown_steps=1000"], train_steps=steps)


NUMBERS = [
    name
    for name, field in kt.TransformerConfig.__dataclass_fields__.items()
    if field.type in (int, float)
]
ABOVE_ONE = ("layer_norm_epsilon", "learning_rate_scale", "adam_epsilon")
ABOVE_ONE += ("clip_norm", "alpha", "r_drop")
ODD = ["nan", "inf", "-inf", "-1", "0", "1", "1e300", "1e-300", str(10**30)]
ODD += ["0.999999999999", "1e-20", "1e20", ""]


@pytest.mark.parametrize("name", NUMBERS)
def test_any_number_is_refused_in_one_line_or_exact_in_float32(name):
    for text in ODD:
        try:
            value = getattr(make_config("tiny", [f"{name}={text}"]), name)
        except InputError as error:
            assert name in str(error) and "\n" not in str(error)
            continue
        assert value == 0 or np.float32(value) != 0
        assert np.isfinite(np.float32(value)) and abs(value) <= 1e30
        assert value >= 1 or np.float32(value) < 1 or name in ABOVE_ONE
