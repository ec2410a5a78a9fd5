import dataclasses

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
        ("dropout=0", 0.0),
        ("adam_epsilon=1e-8", 1e-8),
        ("norm=pre", "pre"),
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
        ("dropout=", "dropout must be of type float"),
        ("num_layers=2.0", "num_layers must be of type int"),
        ("attention_bias=maybe", "attention_bias must be of type bool"),
        ("vocabulary_size=4", "vocabulary_size"),
    ],
)
def test_what_is_wrong_is_one_line(assignment, message):
    with pytest.raises(InputError, match=message) as caught:
        make_config("tiny", [assignment])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="tiniest"):
        make_config("tiniest", [])
