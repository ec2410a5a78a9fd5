"""What TransformerConfig accepts, refuses, and writes."""

import dataclasses
import json
import re
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.config import field_names
from keras_transformer.fields import ROLES

FIELDS = typing.get_type_hints(kt.TransformerConfig)
INFINITY, NAN = float("inf"), float("nan")

OUT_OF_RANGE = {
    "vocabulary_size": [4, 0, -1],
    "source_vocabulary_size": [4, -1],
    "num_layers": [0],
    "num_decoder_layers": [-1],
    "d_model": [0, 7],
    "d_ff": [0],
    "num_heads": [0],
    "d_k": [0],
    "d_v": [0],
    "norm": ["", "middle", "Post"],
    "layer_norm_epsilon": [0.0, -1e-6],
    "activation": ["tanh", "ReLU"],
    "share_embeddings": ["some", ""],
    "positions": ["relative"],
    "sinusoid_rates": ["fairseq", ""],
    "max_positions": [0],
    "first_source_word_id": [-1, 5],  # without word positions
    "first_target_word_id": [-1, 5],
    "attention_window": [-1],
    "dropout": [-0.1, 1.0],
    "attention_dropout": [-0.1, 1.0],
    "activation_dropout": [-0.1, 1.0],
    "label_smoothing": [-0.1, 1.0],
    "r_drop": [-1.0],
    "learning_rate_scale": [0.0, -1.0],
    "warmup_steps": [0],
    "cooldown_steps": [-1, 100_001],  # more than train_steps
    "adam_beta_1": [-0.1, 1.0],
    "adam_beta_2": [-0.1, 1.0],
    "adam_epsilon": [0.0],
    "clip_norm": [-1.0],
    "train_steps": [0],
    "batch_tokens": [0],
    "average_checkpoints": [-1],
    "beam_size": [0],
    "alpha": [-0.1],
    "length_penalty": ["none"],
    "stop_criterion": ["never", "early"],
    "max_extra_tokens": [-1],
}

FIELDS_BY_ROLE = {
    "architecture": """vocabulary_size source_vocabulary_size num_layers
        num_decoder_layers d_model d_ff num_heads d_k d_v norm
        layer_norm_epsilon activation attention_bias share_embeddings
        output_bias positions sinusoid_rates max_positions first_source_word_id
        first_target_word_id attention_window""",
    "training": """dropout attention_dropout activation_dropout label_smoothing
        r_drop learning_rate_scale warmup_steps adam_beta_1 adam_beta_2
        adam_epsilon clip_norm batch_tokens""",
    "duration": "cooldown_steps train_steps average_checkpoints",
    "decoding": (
        "beam_size alpha length_penalty stop_criterion max_extra_tokens"
    ),
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
    """A new field is put under a role by hand, here too."""
    assert set(ROLES) == FIELDS_BY_ROLE.keys() | {"width"}
    for role, names in FIELDS_BY_ROLE.items():
        assert field_names(role) == tuple(names.split()), role
    assert sorted(FIELDS) == sorted(" ".join(FIELDS_BY_ROLE.values()).split())
    assert field_names("width") == ("d_model", "d_ff", "d_k", "d_v")
    both = field_names("decoding", "duration")
    assert both == field_names("duration") + field_names("decoding")
    with pytest.raises(ValueError, match="model"):
        field_names("training", "model")
    documented = re.findall(r"^ {8}(\w+): ", kt.TransformerConfig.__doc__, re.M)
    assert documented == [*FIELDS, "ValueError"]


@pytest.mark.parametrize("name", FIELDS)
def test_invalid_values(name):
    values = INVALID_TYPES[FIELDS[name]] + OUT_OF_RANGE.get(name, [])
    assert name in OUT_OF_RANGE or FIELDS[name] is bool
    for value in values:
        with pytest.raises(ValueError, match=name):
            config(**{name: value})


@pytest.mark.parametrize(
    "name, fields",
    [
        (
            "sinusoid_rates",
            {"sinusoid_rates": "marian", "positions": "learned"},
        ),
        ("d_model", {"sinusoid_rates": "marian", "d_model": 2}),
        ("r_drop", {"dropout": 0.0, "r_drop": 5.0}),
        (
            "first_source_word_id",
            {"positions": "words", "first_target_word_id": 5},
        ),
        ("d_model", {"positions": "words", "d_model": 6}),
        # Of the same size, it is another vocabulary all the same.
        ("source_vocabulary_size", {"source_vocabulary_size": 9}),
    ],
)
def test_values_that_do_not_go_together(name, fields):
    with pytest.raises(ValueError, match=name):
        config(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"dropout": 0.0, "alpha": 0.0, "clip_norm": 0.0, "beam_size": 1},
        {"d_model": 7, "positions": "learned"},
        {"sinusoid_rates": "marian"},
        {"dropout": 0.0, "attention_dropout": 0.1, "r_drop": 5.0},
        {"dropout": 0.0, "activation_dropout": 0.1, "r_drop": 5.0},
    ],
)
def test_valid_values(fields):
    assert vars(config(**fields)).items() >= fields.items()


def test_an_integer_is_a_valid_float():
    found = config(alpha=1, dropout=0)
    assert (found.alpha, found.dropout) == (1.0, 0.0)
    assert type(found.alpha) is float


@given(
    share=st.sampled_from(["all", "target-softmax", "none"]),
    target=st.integers(0, 12),
    source=st.integers(-1, 12),
    layers=st.integers(0, 3),
    decoder_layers=st.integers(-1, 3),
)
def test_sides_that_differ(share, target, source, layers, decoder_layers):
    """Either there is such a configuration, with these sides, or none."""
    fields = {
        "share_embeddings": share,
        "vocabulary_size": target,
        "source_vocabulary_size": source,
        "num_layers": layers,
        "num_decoder_layers": decoder_layers,
    }
    is_valid = (
        target >= 5
        and (source == 0 or (source >= 5 and share != "all"))
        and layers >= 1
        and decoder_layers >= 0
    )
    if not is_valid:
        with pytest.raises(ValueError, match="must be"):
            kt.TransformerConfig(**fields)
        return
    found = kt.TransformerConfig(**fields)
    assert found.source_pieces == (source if source else target)
    assert found.decoder_layers == (decoder_layers or layers)
    assert kt.TransformerConfig.from_json(found.to_json()) == found


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
    assert base == kt.TransformerConfig(vocabulary_size=37_000)
    changed = base.replace(d_k=16)
    assert (changed.d_k, base.d_k) == (16, 64)
    assert kt.TransformerConfig.preset("base", d_k=16) == changed
    with pytest.raises(dataclasses.FrozenInstanceError):
        base.d_model = 4
    for call in (
        base.replace,
        lambda **x: kt.TransformerConfig.preset("tiny", **x),
    ):
        for name, value in (("d_k", 0), ("heads", 4)):
            with pytest.raises(ValueError, match=name):
                call(**{name: value})
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


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "3", "null", "{}", '{"vocabulary_size": "9"}'),
        '{"vocabulary_size": 9, "colour": 1}',
    ],
)
def test_invalid_json(text):
    with pytest.raises(ValueError):
        kt.TransformerConfig.from_json(text)
