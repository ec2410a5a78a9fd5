"""The check of an export: what passes, what does not."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.serving.comparison import TranslationReader
from export.serving.export_directory import (
    DESCRIPTION_FILES,
    WARM_UP_FILE,
    read_description,
    read_warm_up,
    select_inputs,
    write_warm_up,
)
from tests import made_up_text
from tests.export import commands

TEXTS = [*made_up_text.sentences()[:9], "", " \t", "g " * 40]


@pytest.fixture(scope="module")
def reader(exported):
    limits = read_description(exported)["limits"]
    return TranslationReader(made_up_text.vocabulary(), TEXTS, limits)


@pytest.fixture(scope="module")
def outputs(server, exported, reader):
    """The export's answers: dict, signature to list of one dict of arrays."""
    found = {}
    names = {"tokens": ["ids"], "score": ["text", "translation"]}
    for signature in reader.signatures:
        inputs = reader.inputs(names.get(signature, ["text"]), 0, len(TEXTS))
        found[signature] = [server.run(exported, signature, **inputs).arrays]
    return found


@pytest.fixture
def compare(reader, outputs, truncating_translator):
    """Compares a signature's answers after a change of one output."""

    def compare_changed(signature, name=None, place=None, value=None):
        (arrays,) = outputs[signature]
        arrays = {key: array.copy() for key, array in arrays.items()}
        if name is not None:
            arrays[name][place] = value
        return reader.compare(signature, [arrays], truncating_translator)

    return compare_changed


CHANGES = {
    "serving_default": ("translation", 3, b"other"),
    "n_best": ("translations", (3, 3), b"other"),
    "align": ("source_words", 3, 0),
    "tokens": ("ids", (3, 1, 0), 9),
    "lengths": ("length", 3, 77),
    "score": ("truncated", 3, True),
}
SCORES = {
    "serving_default": ("score", 3),
    "n_best": ("scores", (3, 3)),
    "align": ("score", 3),
    "tokens": ("scores", (3, 0)),
    "score": ("score", 3),
}


@pytest.mark.parametrize("signature", CHANGES)
def test_equal_answers_pass_and_others_are_named(compare, outputs, signature):
    same = compare(signature)
    assert (same.texts, same.equal, same.first) == (12, 12, None)
    assert same.difference <= 1e-3
    other = compare(signature, *CHANGES[signature])
    assert (other.texts, other.equal) == (12, 11)
    assert repr(TEXTS[3]) in other.first
    if signature not in SCORES:
        return
    name, place = SCORES[signature]
    score = outputs[signature][0][name][place]
    for change in (0.01, np.nan):
        found = compare(signature, name, place, score + change)
        assert found.equal == 12
        assert repr(TEXTS[3]) in found.first
        if not np.isnan(change):
            assert found.difference == pytest.approx(change, abs=1e-3)


def test_a_signature_that_cannot_be_compared_is_refused(
    exported, model_path, tmp_path
):
    module = tf.Module()
    module.call = tf.function(
        lambda text: {"gate": text},
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), {"gated": module.call})
    shutil.copytree(exported / "assets.extra", tmp_path / "assets.extra")
    write_warm_up(tmp_path / WARM_UP_FILE, {"gated": [{"text": ["a"]}]})
    message = check(tmp_path, f"--model_dir={model_path}")[1]
    assert "gated" in message and "--model_dir" in message
    with pytest.raises(InputError, match="gate"):
        select_inputs(["text", "gate"], [], [], [])


def test_warm_up_requests_are_read_as_they_were_written(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    texts = ["a", "\u00e9\U0001f600", ""]
    ids = np.arange(-3, 3, dtype="int32").reshape(2, 3)
    write_warm_up(
        tmp_path / WARM_UP_FILE,
        {"s": [{"text": texts}], "tokens": [{"ids": ids}]},
    )
    found = read_warm_up(tmp_path)
    assert found["s"][0]["text"].tolist() == [text.encode() for text in texts]
    np.testing.assert_array_equal(found["tokens"][0]["ids"], ids)
    content = bytearray((tmp_path / WARM_UP_FILE).read_bytes())
    content[20] ^= 1
    with tf.io.TFRecordWriter(str(tmp_path / "empty")) as writer:
        writer.write(b"")
    empty = (tmp_path / "empty").read_bytes()
    for damaged in (content, content[:-1], b"damaged" * 4, empty):
        (tmp_path / WARM_UP_FILE).write_bytes(damaged)
        with pytest.raises(InputError, match=str(tmp_path / WARM_UP_FILE)):
            read_warm_up(tmp_path)


def check(*arguments):
    """Runs the command; returns stdout and the line of its error."""
    code, lines, err = commands.run("export.check", None, [], *arguments)
    assert code == 2
    return "\n".join(lines), err[-1]


def test_a_version_that_no_server_would_load_is_refused(exported, tmp_path):
    version = tmp_path / "1"
    shutil.copytree(exported, version)
    (version / "variables" / "variables.data-00000-of-00001").write_bytes(b"")
    assert str(version) in check(tmp_path)[1]


def test_what_accesses_files_is_not_run(exported, server, tmp_path):
    """Neither when it is loaded nor when its warm-up requests are asked."""
    version, written = tmp_path / "1", tmp_path / "written"
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def write(text):
        tf.io.write_file(str(written), text[0])
        return {"translation": text}

    tf.saved_model.save(module, str(version), {"serving_default": write})
    (version / WARM_UP_FILE).parent.mkdir(exist_ok=True)
    request = {"text": ["written by the server"]}
    write_warm_up(version / WARM_UP_FILE, {"serving_default": [request]})
    description = DESCRIPTION_FILES["translation"]
    shutil.copy(exported / description, version / description)
    message = check(tmp_path)[1]
    assert f"{version} was not run" in message
    assert "WriteFile" in message
    assert not written.exists()
    # Or this test would prove nothing.
    server.run(version, text=["x"])
    assert written.read_text() == "x"


def test_another_models_export_is_refused(exported, model_path, tmp_path):
    other = tmp_path / "m"
    shutil.copytree(model_path, other)
    directory = ModelDirectory(other)
    model = directory.load_model()
    model.weights[-1].assign(model.weights[-1] * 1.5)
    directory.write_weights(model)
    out, message = check(exported.parent, f"--model_dir={other}")
    assert "signature" in message and "expected" in message
    assert "72/72" in out
    none = tmp_path / "none"
    assert str(none) in check(exported, f"--model_dir={none}")[1]
