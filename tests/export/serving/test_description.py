"""What an export says of itself, read back."""

import json

import pytest

from export.errors import InputError
from export.server_runtime.saved_model import DESCRIPTION_FILE, read_description

WHOLE = {
    "parameters": 9,
    "limits": {
        "beam_size": 4,
        "alpha": 0.6,
        "stop": "certain",
        "max_source_tokens": 256,
        "max_output_extra": 50,
    },
}


def written(folder, text):
    path = folder / DESCRIPTION_FILE
    path.parent.mkdir()
    path.write_text(text)
    return folder


def without(limit):
    limits = {k: v for k, v in WHOLE["limits"].items() if k != limit}
    return json.dumps(WHOLE | {"limits": limits})


def test_it_is_read_as_it_was_written(tmp_path):
    assert read_description(written(tmp_path, json.dumps(WHOLE))) == WHOLE


@pytest.mark.parametrize(
    "text, message",
    [
        (without("stop"), "it does not say stop"),
        (without("alpha"), "it does not say alpha"),
        (json.dumps(WHOLE | {"parameters": 0}), "it does not say parameters"),
        (json.dumps(WHOLE | {"limits": []}), "cannot be used"),
        (json.dumps(WHOLE | {"parameters": "9"}), "cannot be used"),
        ('{"parameters": 9}', "limits"),
        ("[1]", "cannot be used"),
        ("{", "cannot be used"),
    ],
)
def test_what_is_no_description_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as refused:
        read_description(written(tmp_path, text))
    assert "export the model again" in str(refused.value)


def test_none_at_all_is_refused(tmp_path):
    with pytest.raises(InputError, match="export the model again"):
        read_description(tmp_path)
