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
    "source_words_from": [-1, 5],  # with positions that count no words
    "target_words_from": [-1, 5],
    "attention_window": [-1],
    "dropout": [-0.1, 1.0],
    "attention_dropout": [-0.1, 1.0],
    "activation_dropout": [-0.1, 1.0],
    "label_smoothing": [-0.1, 1.0],
    "r_drop": [-1.0, float("inf")],
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
    "stop": ["never", "early"],
    "max_output_extra": [-1],
}

OF_EACH_ROLE = {
    "architecture": """vocabulary_size source_vocabulary_size num_layers
        num_decoder_layers d_model d_ff num_heads d_k d_v norm
        layer_norm_epsilon activation attention_bias share_embeddings
        output_bias positions sinusoid_rates max_positions source_words_from
        target_words_from attention_window""",
    "training": """dropout attention_dropout activation_dropout label_smoothing
        r_drop learning_rate_scale warmup_steps adam_beta_1 adam_beta_2
        adam_epsilon clip_norm batch_tokens""",
    "ending": "cooldown_steps train_steps average_checkpoints",
    "decoding": "beam_size alpha length_penalty stop max_output_extra",
}

WRONG_TYPE = {
    int: [1.5, "8", None, True],
    float: ["0.1", None, True],
    str: [1, None],
    bool: [1, "true", None],
}


def one_field(name, value):
    return {"vocabulary_size": 100, name: value}


def test_the_tables_here_miss_no_field():
    choices = {name for name, kind in FIELDS.items() if kind is bool}
    assert OUT_OF_RANGE.keys() | choices == FIELDS.keys()


def test_every_field_has_one_role():
    """A new field is put under one by hand, here too."""
    assert set(ROLES) == OF_EACH_ROLE.keys() | {"width"}
    for role, names in OF_EACH_ROLE.items():
        assert field_names(role) == tuple(names.split()), role
    assert sorted(FIELDS) == sorted(" ".join(OF_EACH_ROLE.values()).split())


def test_widths_are_of_the_architecture():
    assert field_names("width") == ("d_model", "d_ff", "d_k", "d_v")


def test_fields_of_several_roles():
    both = field_names("decoding", "ending")
    assert both == field_names("ending") + field_names("decoding")
    assert field_names(*OF_EACH_ROLE) == tuple(FIELDS)
    with pytest.raises(ValueError, match="architecture.*, not 'model'"):
        field_names("training", "model")


def test_help_tells_what_every_field_is():
    told = re.findall(r"^ {8}(\w+): ", kt.TransformerConfig.__doc__, re.M)
    assert told == [*FIELDS, "ValueError"]


@pytest.mark.parametrize(
    "name, value",
    [(name, value) for name, bad in OUT_OF_RANGE.items() for value in bad],
)
def test_out_of_range(name, value):
    with pytest.raises(ValueError, match=name):
        kt.TransformerConfig(**one_field(name, value))


@pytest.mark.parametrize("changes", [{"positions": "learned"}, {"d_model": 2}])
def test_marians_rates_are_of_sinusoids_with_two_pairs(changes):
    kt.TransformerConfig(vocabulary_size=9, sinusoid_rates="marian")
    with pytest.raises(ValueError, match="must be paper with pos|must be abo"):
        kt.TransformerConfig(
            vocabulary_size=9, sinusoid_rates="marian", **changes
        )


@pytest.mark.parametrize(
    "name", ["dropout", "attention_dropout", "activation_dropout"]
)
def test_r_drop_needs_a_dropout(name):
    none = {"vocabulary_size": 9, "dropout": 0.0}
    kt.TransformerConfig(**{**none, name: 0.1, "r_drop": 5.0})
    with pytest.raises(ValueError, match="r_drop must be 0 where there is no"):
        kt.TransformerConfig(**none, r_drop=5.0)


@pytest.mark.parametrize(
    "name, value",
    [(name, bad) for name, kind in FIELDS.items() for bad in WRONG_TYPE[kind]],
)
def test_wrong_type(name, value):
    with pytest.raises(ValueError, match=f"{name} must be of type"):
        kt.TransformerConfig(**one_field(name, value))


@pytest.mark.parametrize("name", [n for n, k in FIELDS.items() if k is float])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_finite_number(name, value):
    with pytest.raises(ValueError, match=name):
        kt.TransformerConfig(**one_field(name, value))


def test_a_whole_number_is_a_float_too():
    config = kt.TransformerConfig(vocabulary_size=100, alpha=1, dropout=0)
    assert (config.alpha, config.dropout) == (1.0, 0.0)
    assert type(config.alpha) is float


def test_learned_positions_need_no_even_width():
    kt.TransformerConfig(vocabulary_size=5, d_model=7, positions="learned")


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
    possible = (
        target >= 5
        and (source == 0 or (source >= 5 and share != "all"))
        and layers >= 1
        and decoder_layers >= 0
    )
    if not possible:
        with pytest.raises(ValueError, match="must be"):
            kt.TransformerConfig(**fields)
        return
    config = kt.TransformerConfig(**fields)
    assert config.source_pieces == (source if source else target)
    assert config.decoder_layers == (decoder_layers or layers)
    assert kt.TransformerConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("size", [9, 12])
def test_one_matrix_for_all_is_of_one_vocabulary(size):
    """Of the same size, a source vocabulary of its own is another one."""
    with pytest.raises(ValueError) as caught:
        kt.TransformerConfig(vocabulary_size=9, source_vocabulary_size=size)
    assert str(caught.value) == (
        "source_vocabulary_size must be 0 with share_embeddings=all (one "
        "matrix is of one vocabulary; choose target-softmax or none), not "
        f"{size}."
    )


def test_an_architecture_has_the_numbers_that_0_stands_for():
    config = kt.TransformerConfig(
        vocabulary_size=9, num_layers=3, share_embeddings="none"
    )
    said = config.replace(source_vocabulary_size=9, num_decoder_layers=3)
    assert config.architecture() == said.architecture()
    assert tuple(config.architecture()) == field_names("architecture")
    for changes in ({"source_vocabulary_size": 8}, {"num_decoder_layers": 2}):
        there = config.replace(**changes).architecture()
        assert there == config.architecture() | changes


def test_limits_that_are_allowed():
    kt.TransformerConfig(
        vocabulary_size=5, dropout=0.0, alpha=0.0, clip_norm=0.0, beam_size=1
    )


def test_defaults_are_the_base_model():
    fields = dataclasses.asdict(kt.TransformerConfig(vocabulary_size=37_000))
    assert fields == dataclasses.asdict(kt.TransformerConfig.preset("base"))


def test_unknown_field_is_named():
    with pytest.raises(ValueError, match="d_modell"):
        kt.TransformerConfig.preset("base", d_modell=4)
    with pytest.raises(ValueError, match="heads"):
        kt.TransformerConfig.preset("base").replace(heads=4)
    with pytest.raises(ValueError, match="colour"):
        kt.TransformerConfig.from_json('{"vocabulary_size": 9, "colour": 1}')


def test_unknown_preset_lists_those_there_are():
    with pytest.raises(ValueError, match="'bass'.*base, big, big-enfr"):
        kt.TransformerConfig.preset("bass")


def test_overrides_of_a_preset_are_checked():
    assert kt.TransformerConfig.preset("base", dropout=0.3).dropout == 0.3
    with pytest.raises(ValueError, match="dropout"):
        kt.TransformerConfig.preset("base", dropout=1.0)


def test_replace():
    config = kt.TransformerConfig.preset("base")
    changed = config.replace(d_k=16)
    assert (changed.d_k, config.d_k) == (16, 64)
    assert changed.replace(d_k=64) == config
    with pytest.raises(ValueError, match="d_k"):
        config.replace(d_k=0)


def test_is_frozen():
    config = kt.TransformerConfig.preset("base")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 4


def test_json_round_trip():
    config = kt.TransformerConfig.preset(
        "multi30k-tiny", adam_epsilon=1.0000000000000002e-9, norm="pre"
    )
    text = config.to_json()
    assert kt.TransformerConfig.from_json(text) == config
    assert json.loads(text) == dataclasses.asdict(config)


def test_json_may_leave_out_what_has_a_default():
    config = kt.TransformerConfig.from_json('{"vocabulary_size": 9}')
    assert config == kt.TransformerConfig(vocabulary_size=9)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", "3", "null", "{}", '{"vocabulary_size": "9"}'],
)
def test_json_that_is_no_configuration(text):
    with pytest.raises(ValueError):
        kt.TransformerConfig.from_json(text)
