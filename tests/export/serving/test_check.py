"""The check of an export: what passes, what does not."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.serving.comparison import TranslationComparer
from export.serving.export_directory import (
    WARM_UP_FILE,
    read_description,
    read_warm_up_requests,
    select_inputs,
    write_warm_up_requests,
)
from tests import made_up_text
from tests.export import commands

TEXTS = [*made_up_text.sentences()[:9], "", " \t\n", "\u3000", "\u200b"]
TEXTS += ["g " * 40]


@pytest.fixture(scope="module")
def comparer(exported):
    description = read_description(exported)
    return TranslationComparer(made_up_text.vocabulary(), TEXTS, description)


@pytest.fixture(scope="module")
def outputs(server, exported, comparer):
    """The export's outputs: dict, signature to list of one dict of arrays."""
    found = {}
    names = {
        "tokens": ["ids"],
        "score": ["text", "translation"],
        "translate_with_terms": ["text", "source_terms", "target_terms"],
    }
    for signature in comparer.expectations:
        inputs = comparer.inputs(names.get(signature, ["text"]), 0, len(TEXTS))
        found[signature] = [server.run(exported, signature, **inputs).arrays]
    return found


@pytest.fixture
def compare(comparer, outputs, truncating_translator):
    """Compares a signature's outputs after a change of one output."""

    def compare_changed(signature, name=None, place=None, value=None):
        (arrays,) = outputs[signature]
        arrays = {key: array.copy() for key, array in arrays.items()}
        if name is not None:
            arrays[name][place] = value
        return comparer.compare(signature, [arrays], truncating_translator)

    return compare_changed


# Of each signature an output to change, and its score.
CHANGES = {
    "serving_default": (("translation", 3, b"other"), ("score", 3)),
    "translate_with_terms": (("translation", 3, b"other"), ("score", 3)),
    "n_best": (("translations", (3, 3), b"other"), ("scores", (3, 3))),
    "align": (("source_words", 3, 0), ("score", 3)),
    "tokens": (("ids", (3, 1, 0), 9), ("scores", (3, 0))),
    "lengths": (("length", 3, 77), None),
    "score": (("truncated", 3, True), ("score", 3)),
}


@pytest.mark.parametrize("signature", CHANGES)
def test_equal_answers_pass_and_others_are_named(compare, outputs, signature):
    same = compare(signature)
    assert (same.num_texts, same.num_equal, same.error) == (14, 14, None)
    assert same.max_difference <= 1e-3
    change, score = CHANGES[signature]
    other = compare(signature, *change)
    assert (other.num_texts, other.num_equal) == (14, 13)
    assert repr(TEXTS[3]) in other.error
    if score is None:
        return
    name, place = score
    right = outputs[signature][0][name][place]
    for difference in (0.01, np.nan):
        found = compare(signature, name, place, right + difference)
        assert found.num_equal == 14
        assert repr(TEXTS[3]) in found.error


def test_warm_up_requests_are_read_as_they_were_written(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    texts = ["a", "\u00e9\U0001f600", ""]
    ids = np.arange(-3, 3, dtype="int32").reshape(2, 3)
    write_warm_up_requests(
        tmp_path / WARM_UP_FILE,
        {"s": [{"text": texts}], "tokens": [{"ids": ids}]},
    )
    found = read_warm_up_requests(tmp_path)
    assert found["s"][0]["text"].tolist() == [text.encode() for text in texts]
    np.testing.assert_array_equal(found["tokens"][0]["ids"], ids)
    content = bytearray((tmp_path / WARM_UP_FILE).read_bytes())
    content[20] ^= 1
    for damaged in (content, content[:-1], b"damaged" * 4):
        (tmp_path / WARM_UP_FILE).write_bytes(damaged)
        with pytest.raises(InputError, match=str(tmp_path / WARM_UP_FILE)):
            read_warm_up_requests(tmp_path)


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


@pytest.fixture
def save(exported, tmp_path):
    """Writes a version with one signature of text; returns its folder."""

    def write_version(name, function):
        module, version = tf.Module(), tmp_path / "e" / "1"
        module.call = tf.function(
            function,
            input_signature=[tf.TensorSpec([None], tf.string, "text")],
            autograph=False,
        )
        tf.saved_model.save(module, str(version), {name: module.call})
        shutil.copytree(exported / "assets.extra", version / "assets.extra")
        write_warm_up_requests(
            version / WARM_UP_FILE, {name: [{"text": ["a"]}]}
        )
        return version

    return write_version


def test_another_models_export_is_refused(save, model_path, tmp_path):
    version = save(
        "serving_default",
        lambda text: {
            "translation": text,
            "score": tf.zeros(tf.shape(text)),
            "truncated": tf.zeros(tf.shape(text)) > 0,
        },
    )
    message = check(version.parent, f"--model_dir={model_path}")[1]
    assert "signature serving_default" in message and "expected" in message
    none = tmp_path / "none"
    assert str(none) in check(version, f"--model_dir={none}")[1]


def test_a_signature_that_cannot_be_compared_is_refused(save, model_path):
    version = save("gated", lambda text: {"gate": text})
    message = check(version, f"--model_dir={model_path}")[1]
    assert "gated" in message and "--model_dir" in message
    with pytest.raises(InputError, match="gate"):
        select_inputs(["text", "gate"], ["a"], ["b"], [], [("", "")])


def test_what_accesses_files_is_not_run(save, server, tmp_path):
    """Neither when it is loaded nor when its warm-up requests are run."""
    written = tmp_path / "written"

    def write(text):
        with tf.control_dependencies([tf.io.write_file(str(written), text[0])]):
            return {"translation": tf.identity(text)}

    version = save("serving_default", write)
    message = check(version)[1]
    assert f"{version} was not run" in message
    assert "WriteFile" in message
    assert not written.exists()
    # Or this test would prove nothing.
    server.run(version, text=["x"])
    assert written.read_text() == "x"
