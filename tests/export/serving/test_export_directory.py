"""Versions, descriptions, presets' names, and the example configuration."""

import json

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.serving.export_directory import (
    DESCRIPTION_FILES,
    describe,
    preset_of,
    read_description,
    version_number,
)
from export.serving.served_translator import ServedTranslator
from tests.export import tiny

WHOLE = {
    "parameters": 9,
    "limits": {
        "beam_size": 4,
        "alpha": 0.6,
        "stop_criterion": "exact",
        "max_source_tokens": 256,
        "max_extra_tokens": 50,
    },
}


def written(folder, text):
    path = folder / DESCRIPTION_FILES["translation"]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return folder


def without(limit):
    limits = {k: v for k, v in WHOLE["limits"].items() if k != limit}
    return json.dumps(WHOLE | {"limits": limits})


def test_it_is_read_as_it_was_written(tmp_path):
    assert read_description(written(tmp_path, json.dumps(WHOLE))) == WHOLE


def test_what_is_no_description_is_refused(tmp_path):
    for text in (
        None,
        without("stop_criterion"),
        json.dumps(WHOLE | {"parameters": 0}),
        json.dumps(WHOLE | {"limits": []}),
        json.dumps(WHOLE | {"parameters": "9"}),
        '{"parameters": 9}',
        "[1]",
        "{",
    ):
        if text is not None:
            written(tmp_path, text)
        with pytest.raises(InputError, match="export the model again"):
            read_description(tmp_path)


def test_its_limits_are_those_of_the_search_asked_for(model_path):
    search = {
        "beam_size": 3,
        "alpha": 1.5,
        "stop_criterion": "k_finished",
        "max_extra_tokens": 2,
    }
    directory = ModelDirectory(model_path)
    model = directory.load_model()
    asked = {"max_source_tokens": tiny.MAX_SOURCE_TOKENS, **search}
    servable = ServedTranslator(model, directory.load_tokenizer(), **asked)
    limits = describe(directory, servable)["limits"]
    assert limits == asked | {"target_pieces": None, "shortlist": None}
    for name in ("beam_size", "alpha", "max_extra_tokens"):
        assert getattr(model.config, name) != search[name]


# Of models with learned positions.
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
PARSER = {
    "vocabulary_size": 86,
    "source_vocabulary_size": 300,
    "first_source_word_id": 203,
    "first_target_word_id": 46,
}
PRESETS = [
    *((name, {}, name) for name in ("tiny", "E-learned", "A32")),
    *(
        ("E-learned", {field: value}, None)
        for field, value in OTHER_ARCHITECTURE.items()
    ),
    ("base", {"num_decoder_layers": 6}, "base"),
    ("base", {"num_layers": 12, "num_decoder_layers": 1}, "base-12-1"),
    # The sinusoid has no number of positions.
    ("base", {"max_positions": 7}, "base"),
    # What follows from text, training and search is no architecture.
    ("big", {"vocabulary_size": 99, "dropout": 0.2, "beam_size": 9}, "big"),
    ("big", {"adam_beta_1": 0.8, "train_steps": 3}, "big"),
    ("parsing-small", PARSER, "parsing-small"),
]


def test_only_the_architecture_decides_the_presets_name():
    for preset, changes, name in PRESETS:
        config = kt.TransformerConfig.preset(preset, **changes)
        assert preset_of(config) == name, (preset, changes)


def test_versions_are_numbered_as_a_server_reads_them(tmp_path):
    assert version_number(tmp_path / "e") == 1
    others = ("99.old", "v4", ".12", "models.config", "-3", "\u0663")
    for name in others:
        (tmp_path / "e" / name).mkdir(parents=True)
    assert version_number(tmp_path / "e") == 1
    for name in ("2", "003", "10"):
        (tmp_path / "e" / name).mkdir()
    assert version_number(tmp_path / "e") == 11
    assert version_number(tmp_path / "e", 7) == 7
    # The server reads 003 as 3.
    for number in (0, -1, 2, 3, 10):
        with pytest.raises(InputError, match=str(number)):
            version_number(tmp_path / "e", number)


def test_labels_of_the_example_are_of_versions_that_are_served():
    config = text_format.Parse(
        (tiny.ROOT / "docs/serving/models.config").read_text(),
        model_server_config_pb2.ModelServerConfig(),
    )
    (model,) = config.model_config_list.config
    served = set(model.model_version_policy.specific.versions)
    assert model.name == "translator"
    assert set(model.version_labels) == {"stable", "canary"}
    assert set(model.version_labels.values()) <= served
