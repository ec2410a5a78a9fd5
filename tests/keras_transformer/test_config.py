"""What TransformerConfig accepts, refuses, and writes."""

import dataclasses
import inspect
import json
import re
import typing

import pytest

import keras_transformer as kt
from keras_transformer.config import ROLES, field_names

FIELDS = typing.get_type_hints(kt.TransformerConfig)
INFINITY, NAN = float("inf"), float("nan")

# Fields by their smallest value, and those in [0, 1).
FROM_1 = (
    *("num_layers", "d_ff", "num_heads", "d_k", "d_v", "max_positions"),
    *("warmup_steps", "train_steps", "batch_tokens", "beam_size"),
)
FROM_0 = (
    *("num_decoder_layers", "attention_window", "r_drop", "clip_norm"),
    *("average_checkpoints", "alignment_heads", "max_extra_tokens"),
)
BELOW_1 = (
    *("dropout", "attention_dropout", "activation_dropout"),
    *("label_smoothing", "adam_beta_1", "adam_beta_2"),
)
OUT_OF_RANGE = {
    **dict.fromkeys(FROM_1, [0]),
    **dict.fromkeys(FROM_0, [-1, -0.1]),
    **dict.fromkeys(BELOW_1, [-0.1, 1.0]),
    "vocabulary_size": [4, 0, -1],
    "source_vocabulary_size": [4, -1],
    "d_model": [0, 7],
    "norm": ["", "middle", "Post"],
    "layer_norm_epsilon": [0.0, -1e-6],
    "activation": ["tanh", "ReLU"],
    "share_embeddings": ["some"],
    "positions": ["relative"],
    "sinusoid_rates": ["marian2"],
    "first_source_word_id": [-1, 5],  # without word positions
    "first_target_word_id": [-1, 5],
    "learning_rate_scale": [0.0, -1.0],
    "cooldown_steps": [-1, 100_001],  # more than train_steps
    "adam_epsilon": [0.0],
    "alpha": [-1.1, 8.1],
    "length_penalty": ["none"],
    "stop_criterion": ["never"],
    "no_repeat_ngram_size": [-1],
    "retry_ngram_size": [-1],
    "repetition_penalty": [0.0, 101.0],
    "alignment_layer": [-3, 0, 7],  # of 6
}

INVALID_TYPES = {
    int: [1.5, "8", None, True],
    float: ["0.1", None, True, NAN, INFINITY],
    str: [1, None],
    bool: [1, "true", None],
}


def config(**fields):
    return kt.TransformerConfig(**{"vocabulary_size": 9} | fields)


def test_every_field_has_one_role_and_is_documented():
    roles = [field_names(role) for role in ROLES if role != "width"]
    assert sorted(sum(roles, ())) == sorted(FIELDS)
    assert field_names("width") == ("d_model", "d_ff", "d_k", "d_v")
    # What may change between the runs of a training.
    assert field_names("duration", "decoding") == (
        *("cooldown_steps", "train_steps", "average_checkpoints", "beam_size"),
        *("alpha", "length_penalty", "stop_criterion", "max_extra_tokens"),
        *("no_repeat_ngram_size", "retry_ngram_size", "repetition_penalty"),
        *("alignment_layer", "alignment_heads"),
    )
    text = inspect.getdoc(kt.TransformerConfig)
    documented = re.findall(r"^ {4}(\w+): ", text, re.M)
    assert documented == [*FIELDS]


def test_invalid_values():
    for name, kind in FIELDS.items():
        assert name in OUT_OF_RANGE or kind is bool
        for value in INVALID_TYPES[kind] + OUT_OF_RANGE.get(name, []):
            with pytest.raises(ValueError, match=name):
                config(**{name: value})


@pytest.mark.parametrize(
    "name, fields",
    [
        ("^sinusoid", {"sinusoid_rates": "marian", "positions": "learned"}),
        ("^d_model", {"sinusoid_rates": "marian", "d_model": 2}),
        ("^r_drop", {"dropout": 0.0, "r_drop": 5.0}),
        ("^first_source", {"positions": "words", "first_target_word_id": 5}),
        ("^d_model", {"positions": "words", "d_model": 6}),
        # Of the same size, it is another vocabulary all the same.
        ("^source_vocabulary_size", {"source_vocabulary_size": 9}),
        ("^alignment_layer", {"alignment_layer": 2, "num_decoder_layers": 1}),
        ("^alignment_heads", {"alignment_heads": 3, "num_heads": 2}),
    ],
)
def test_values_that_do_not_go_together(name, fields):
    with pytest.raises(ValueError, match=name):
        config(**fields)


def test_valid_values():
    for fields in (
        {"dropout": 0, "alpha": 0, "clip_norm": 0.0, "beam_size": 1},
        {"d_model": 7, "positions": "learned"},
        {"dropout": 0.0, "attention_dropout": 0.1, "r_drop": 5.0},
    ):
        found = config(**fields)
        assert vars(found).items() >= fields.items()
        assert type(found.alpha) is float


def test_an_architecture_has_the_numbers_that_0_stands_for():
    short = config(num_layers=3, share_embeddings="none")
    explicit = short.replace(source_vocabulary_size=9, num_decoder_layers=3)
    assert short.architecture() == explicit.architecture()
    assert tuple(short.architecture()) == field_names("architecture")
    for changes in ({"source_vocabulary_size": 8}, {"num_decoder_layers": 2}):
        changed = short.replace(**changes).architecture()
        assert changed == short.architecture() | changes


def test_presets_and_copies():
    base = kt.TransformerConfig.preset("base")
    changed = base.replace(d_k=16)
    assert (changed.d_k, base.d_k) == (16, 64)
    assert kt.TransformerConfig.preset("base", d_k=16) == changed
    for name, value in (("d_k", 0), ("heads", 4)):
        with pytest.raises(ValueError, match=name):
            base.replace(**{name: value})
    with pytest.raises(ValueError, match="'bass'.*base, big, big-enfr"):
        kt.TransformerConfig.preset("bass")


def test_json_round_trip():
    found = kt.TransformerConfig.preset(
        "multi30k-tiny", adam_epsilon=1.0000000000000002e-9, norm="pre"
    )
    text = found.to_json()
    assert kt.TransformerConfig.from_json(text) == found
    assert json.loads(text) == dataclasses.asdict(found)
    # Fields with a default may be missing.
    found = kt.TransformerConfig.from_json('{"vocabulary_size": 9}')
    assert found == config()
    for text in (
        *("", "{", "[1]", "3", "null", "{}", '{"vocabulary_size": "9"}'),
        '{"vocabulary_size": 9, "color": 1}',
    ):
        with pytest.raises(ValueError):
            kt.TransformerConfig.from_json(text)
