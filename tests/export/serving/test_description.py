"""What an export says of itself: read back, and the name of its preset."""

import json

import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.server_runtime.export_directory import (
    DESCRIPTION_FILES,
    read_description,
)
from export.serving.description import describe, preset_of
from export.serving.served_translator import ServedTranslator
from tests.export import tiny

WHOLE = {
    "parameters": 9,
    "limits": {
        "beam_size": 4,
        "alpha": 0.6,
        "stop": "exact",
        "max_source_tokens": 256,
        "max_output_extra": 50,
    },
}


def written(folder, text):
    path = folder / DESCRIPTION_FILES["translation"]
    path.parent.mkdir()
    path.write_text(text)
    return folder


def without(limit):
    limits = {k: v for k, v in WHOLE["limits"].items() if k != limit}
    return json.dumps(WHOLE | {"limits": limits})


def test_it_is_read_as_it_was_written(tmp_path):
    assert read_description(written(tmp_path, json.dumps(WHOLE))) == WHOLE


@pytest.mark.parametrize(
    "text",
    [
        without("stop"),
        without("alpha"),
        json.dumps(WHOLE | {"parameters": 0}),
        json.dumps(WHOLE | {"limits": []}),
        json.dumps(WHOLE | {"parameters": "9"}),
        '{"parameters": 9}',
        "[1]",
        "{",
        None,
    ],
)
def test_what_is_no_description_is_refused(tmp_path, text):
    if text is not None:
        written(tmp_path, text)
    with pytest.raises(InputError, match="export the model again"):
        read_description(tmp_path)


def test_its_limits_are_those_of_the_search_asked_for(model_path):
    search = {
        "beam_size": 3,
        "alpha": 1.5,
        "stop": "k_finished",
        "max_output_extra": 2,
    }
    directory = ModelDirectory(model_path)
    model = directory.load_model()
    asked = {"max_source_tokens": tiny.MAX_SOURCE_TOKENS, **search}
    servable = ServedTranslator(model, directory.load_tokenizer(), **asked)
    limits = describe(directory, servable)["limits"]
    assert limits == asked | {"target_pieces": None, "shortlist": None}
    for name in ("beam_size", "alpha", "max_output_extra"):
        assert getattr(model.config, name) != search[name]


@pytest.mark.parametrize("name", ["base", "big", "tiny", "E-learned", "A32"])
def test_a_preset_is_known_by_its_name(name):
    assert preset_of(kt.TransformerConfig.preset(name)) == name


# Of models with learned positions: each field but vocabulary_size, which is
# of the text and not of the preset.
OTHER_ARCHITECTURE = {
    "num_layers": 7,
    "num_decoder_layers": 5,
    "d_model": 511,
    "d_ff": 2047,
    "num_heads": 7,
    "d_k": 63,
    "d_v": 63,
    "norm": "pre",
    "layer_norm_epsilon": 1e-5,
    "activation": "gelu",
    "attention_bias": False,
    "share_embeddings": "none",
    "max_positions": 1023,
    "attention_window": 9,
}


@pytest.mark.parametrize("field, value", OTHER_ARCHITECTURE.items())
def test_another_architecture_has_no_presets_name(field, value):
    config = kt.TransformerConfig.preset("E-learned", **{field: value})
    assert preset_of(config) is None


@pytest.mark.parametrize(
    "preset, changes, name",
    [
        ("base", {"num_decoder_layers": 6}, "base"),
        ("base", {"num_layers": 12, "num_decoder_layers": 1}, "base-12-1"),
        ("base", {"num_layers": 12, "num_decoder_layers": 5}, None),
        # The sinusoid has no number of positions.
        ("base", {"max_positions": 7}, "base"),
        ("base", {"layer_norm_epsilon": 1e-5}, None),
        # What follows from text, training and search is no architecture.
        ("big", {"vocabulary_size": 99, "dropout": 0.2, "beam_size": 9}, "big"),
        ("big", {"adam_beta_1": 0.8, "train_steps": 3}, "big"),
        (
            "parsing-small",
            {
                "vocabulary_size": 86,
                "source_vocabulary_size": 300,
                "source_words_from": 203,
                "target_words_from": 46,
            },
            "parsing-small",
        ),
    ],
)
def test_only_the_architecture_decides(preset, changes, name):
    assert preset_of(kt.TransformerConfig.preset(preset, **changes)) == name
