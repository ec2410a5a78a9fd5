"""The check of an export: what passes, what does not."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from export.errors import InputError
from export.model_directory import ModelDirectory
from export.server_runtime.predict_messages import pack_request, unpack_request
from export.server_runtime.saved_model import (
    DESCRIPTION_FILES,
    read_description,
)
from export.serving.comparison import Comparison, TranslatorAnswers
from export.serving.model_answers import translations
from export.serving.warm_up import WARM_UP_FILE, pack_records, read_warm_up
from tests import made_up_text
from tests.export import tiny

TEXTS = [*made_up_text.sentences()[:4], "", "g " * 40]


@pytest.fixture(scope="module")
def answers(translator, exported):
    limits = read_description(exported)["limits"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS)
        # As they come from the other process.
        found = json.loads(json.dumps(translations(translator, TEXTS)))
    return TranslatorAnswers(made_up_text.vocabulary(), TEXTS, found, limits)


@pytest.fixture
def outputs(server, exported, answers):
    """The export's answers about all but the first text."""

    def asked(signature):
        inputs = answers.inputs(signature, 1, len(TEXTS))
        found = server.run(exported, signature, **inputs).arrays
        return {name: array.copy() for name, array in found.items()}

    return asked


def compared(answers, signature, outputs):
    comparison = Comparison()
    answers.compare(signature, 1, outputs, comparison)
    return comparison


@pytest.mark.parametrize("signature", TranslatorAnswers.signatures)
def test_the_same_answers_pass(answers, outputs, signature):
    found = compared(answers, signature, outputs(signature))
    assert (found.texts, found.equal, found.first) == (5, 5, None)
    assert found.difference <= 1e-3


CHANGES = {
    "serving_default": ("translation", 2, b"other"),
    "n_best": ("translations", (2, 3), b"other"),
    "align": ("source_words", 2, 0),
    "tokens": ("ids", (2, 1, 0), 9),
    "lengths": ("length", 2, 77),
    "score": ("truncated", 2, True),
}


@pytest.mark.parametrize("signature", CHANGES)
def test_another_text_is_told(answers, outputs, signature):
    changed = outputs(signature)
    name, place, value = CHANGES[signature]
    changed[name][place] = value
    found = compared(answers, signature, changed)
    assert (found.texts, found.equal) == (5, 4)
    assert repr(TEXTS[3]) in found.first


@pytest.mark.parametrize(
    ("signature", "name", "place"),
    [
        ("serving_default", "score", 2),
        ("n_best", "scores", (2, 3)),
        ("align", "score", 2),
        ("tokens", "scores", (2, 0)),
        ("score", "score", 2),
    ],
)
def test_another_score_is_told(answers, outputs, signature, name, place):
    changed = outputs(signature)
    changed[name][place] += 0.01
    found = compared(answers, signature, changed)
    assert found.equal == 5
    assert found.difference == pytest.approx(0.01, abs=1e-3)
    assert repr(TEXTS[3]) in found.first


def test_a_score_that_is_no_number_is_told(answers, outputs):
    changed = outputs("serving_default")
    changed["score"][1] = np.nan
    assert compared(answers, "serving_default", changed).first is not None


def test_a_request_survives_packing():
    inputs = {
        "text": ("string", [[b"a", b"\xff\x00"], ["\u00e9", ""]]),
        "ids": ("int32", np.arange(-3, 3, dtype="int32").reshape(2, 3)),
        "none": ("int32", np.zeros((0, 4), "int32")),
    }
    name, found = unpack_request(pack_request("s", inputs))
    assert name == "s"
    assert found["text"].tolist() == [[b"a", b"\xff\x00"], [b"\xc3\xa9", b""]]
    for key in ("ids", "none"):
        np.testing.assert_array_equal(found[key], inputs[key][1])


@pytest.mark.parametrize("record", [b"\xff", b"", pack_request("", {})])
def test_what_is_no_request_is_refused(tmp_path, record):
    path = tmp_path / WARM_UP_FILE
    path.parent.mkdir()
    path.write_bytes(pack_records([record]))
    with pytest.raises(InputError, match=str(path)):
        read_warm_up(tmp_path)


def check(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "export.check", *map(str, arguments)],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )


def last_line(done):
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_no_export_is_an_error_of_one_line(tmp_path):
    assert "EXPORT is missing" in last_line(check())
    assert f"no exported version in {tmp_path}" in last_line(check(tmp_path))


def test_a_version_that_no_server_would_load_is_refused(exported, tmp_path):
    version = tmp_path / "1"
    shutil.copytree(exported, version)
    (version / "variables" / "variables.data-00000-of-00001").write_bytes(b"")
    message = last_line(check(tmp_path))
    assert f"could not load {version}" in message


def test_what_reaches_for_files_is_not_run(exported, server, tmp_path):
    """Neither when it is loaded nor when its warm-up requests are asked."""
    version, written = tmp_path / "1", tmp_path / "written"
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def write(text):
        tf.io.write_file(str(written), text[0])
        return {"translation": text}

    signatures = {"serving_default": write}
    tf.saved_model.save(module, str(version), signatures)
    request = {"text": ("string", ["written by the server"])}
    warm_up = version / WARM_UP_FILE
    warm_up.parent.mkdir(exist_ok=True)
    warm_up.write_bytes(
        pack_records([pack_request("serving_default", request)])
    )
    description = DESCRIPTION_FILES["translation"]
    shutil.copy(exported / description, version / description)
    message = last_line(check(tmp_path))
    assert f"{version} was not run" in message
    assert "WriteFile" in message
    assert not written.exists()
    # Or this test would say nothing.
    server.run(version, "serving_default", text=["x"])
    assert written.read_text() == "x"


@pytest.mark.slow
def test_another_models_export_is_refused(exported, model_path, tmp_path):
    other = tmp_path / "m"
    shutil.copytree(model_path, other)
    directory = ModelDirectory(other)
    model = directory.load_model()
    model.weights[-1].assign(model.weights[-1] * 1.5)
    directory.write_weights(model)
    done = check(exported.parent, f"--model_dir={other}")
    assert "does not answer as the model directory does" in last_line(done)
    assert "72/72" in done.stdout
    done = check(exported, f"--model_dir={tmp_path / 'none'}")
    assert str(tmp_path / "none") in last_line(done)
