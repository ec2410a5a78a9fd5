"""Versions, descriptions, presets' names, and the example configuration."""

import json

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.serving.export_directory import (
    DESCRIPTION_FILES,
    make_description,
    newest_version,
    read_description,
    version_number,
)
from export.serving.served_translator import ServedTranslator
from tests.export import tiny

LIMITS = {
    "beam_size": 3,
    "alpha": 1.5,
    "stop_criterion": "k_finished",
    "max_source_tokens": 16,
    "max_extra_tokens": 2,
    "quantization": None,
}
WHOLE = {"parameters": 9, "limits": LIMITS}


def test_descriptions_are_read_or_refused(tmp_path):
    path = tmp_path / DESCRIPTION_FILES["translation"]
    path.parent.mkdir()
    short = {name: LIMITS[name] for name in LIMITS if name != "alpha"}
    for text in (
        None,
        json.dumps(WHOLE | {"limits": short}),
        json.dumps(WHOLE | {"parameters": 0}),
        json.dumps(WHOLE | {"limits": []}),
        '{"parameters": 9}',
        "[1]",
        "{",
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match="export the model again"):
            read_description(tmp_path)
    path.write_text(json.dumps(WHOLE))
    assert read_description(tmp_path) == WHOLE


def test_its_limits_are_those_of_the_search(model_path):
    directory = ModelDirectory(model_path)
    model, tokenizer = directory.load_model(), directory.load_tokenizer()
    servable = ServedTranslator(model, tokenizer, **LIMITS)
    limits = make_description(directory, servable)["limits"]
    assert limits == LIMITS | {"target_pieces": None, "shortlist": None}
    for name in ("beam_size", "alpha", "max_extra_tokens"):
        assert getattr(model.config, name) != LIMITS[name]


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
    assert newest_version(tmp_path / "e") == tmp_path / "e" / "10"
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
    assert set(model.version_labels) == {"stable", "canary"}
    assert set(model.version_labels.values()) <= served
