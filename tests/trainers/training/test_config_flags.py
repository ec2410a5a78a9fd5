import dataclasses

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from keras_transformer.presets import PRESETS
from trainers.training.config_flags import make_config


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_and_their_cooldown(preset):
    assert make_config(preset, []) == kt.TransformerConfig.preset(preset)
    # The default cooldown is scaled, a given one refused.
    config = make_config(preset, [], train_steps=10)
    assert config == make_config(preset, ["train_steps=10"])
    assert config.train_steps == 10 >= config.cooldown_steps
    with pytest.raises(InputError, match="at most train_steps, 10"):
        make_config(preset, ["cooldown_steps=1000"], train_steps=10)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("num_layers=3", 3),
        ("dropout=0", 0.0),
        ("adam_epsilon=1e-8", 1e-8),
        ("norm=pre", "pre"),
        ("attention_bias=False", False),
        ("attention_bias=0", False),
        ("attention_bias=true", True),
    ],
)
def test_values_take_the_type_of_their_field(assignment, value):
    config = make_config("tiny", [assignment])
    actual = getattr(config, assignment.partition("=")[0])
    assert actual == value
    assert type(actual) is type(value)


def test_every_field_can_be_set_and_the_last_value_counts():
    config = kt.TransformerConfig.preset("tiny")
    fields = [f"{k}={v}" for k, v in dataclasses.asdict(config).items()]
    assert make_config("tiny", ["dropout=0.7", *fields]) == config


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("d_fff=7", "d_fff"),
        ("dropout", "--set=dropout"),
        ("=7", "--set==7"),
        ("dropout=", "dropout must be of type float"),
        ("num_layers=2.0", "num_layers must be of type int"),
        ("attention_bias=maybe", "attention_bias must be of type bool"),
        ("norm=middle", "norm"),
        ("vocabulary_size=4", "vocabulary_size"),
    ],
)
def test_what_is_wrong_is_one_line(assignment, message):
    with pytest.raises(InputError, match=message) as caught:
        make_config("tiny", [assignment])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="tiniest"):
        make_config("tiniest", [])


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
