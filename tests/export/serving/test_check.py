"""The check of an export: what passes, what does not."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.serving.comparison import TOLERANCES, Comparison
from export.serving.export_directory import (
    WARM_UP_FILE,
    read_warm_up_requests,
    select_inputs,
    write_warm_up_requests,
)
from tests.export import commands

TEXTS = ["a", "b c", ""]


def row(*rows, dtype="float32"):
    return np.array(rows, dtype)


# Outputs of TEXTS: all that should be equal, and scores.
OUTPUTS = {
    "translation": row(b"x", b"y\0", b"", dtype=object),
    "translations": row([b"x", b"u"], [b"y", b""], [b"", b""], dtype=object),
    "truncated": row(False, True, False, dtype=bool),
    "ids": row(
        [[4, 3, 0]] * 2, [[5, 6, 3], [3, 0, 0]], [[0] * 3] * 2, dtype=int
    ),
    "length": row(2, 3, 1, dtype="int32"),
    "score": row(-1.5, -2.5, 0.0),
    "scores": row([-1.0, -1e9], [-3.0, -4.0], [0.0, -1e9]),
    # Three signatures have these.
    "source_tokens": row(
        [b"a", b"</s>", b""], [b"b", b"c", b"</s>"], [b""] * 3, dtype=object
    ),
    "target_tokens": row(
        [b"x", b"</s>"], [b"y", b"</s>"], [b""] * 2, dtype=object
    ),
    "source_words": np.zeros([3, 3, 2], "int32"),
    "alignment": row(
        [[0.9, 0.1, 0], [0, 1, 0]], [[0.1, 0.2, 0.7]] * 2, np.zeros([2, 3])
    ),
    "token_log_probs": row([-0.5, -0.1], [-0.25, -9.0], [0.0, 0.0]),
}


def changed(name, place, value):
    """Returns the outputs with another value; of scores, a difference."""
    array = OUTPUTS[name].copy()
    is_score = array.dtype == np.float32 and name != "alignment"
    array[place] = array[place] + value if is_score else value
    return OUTPUTS | {name: array}


def compare(outputs, quantization=None):
    comparison = Comparison(TOLERANCES[quantization])
    comparison.add(TEXTS, outputs, OUTPUTS)
    return comparison


def test_equal_answers_pass_and_others_are_named():
    # The padding of a batch does not count.
    padded = {
        name: np.pad(OUTPUTS[name], [(0, 0), (0, 1), *[(0, 0)] * more])
        for name, more in (("token_log_probs", 0), ("source_words", 1))
    }
    padded["ids"] = np.pad(OUTPUTS["ids"], [(0, 0), (0, 0), (0, 2)])
    rounded = changed("score", 0, 5e-5)
    for outputs in (OUTPUTS, OUTPUTS | padded, rounded):
        same = compare(outputs)
        assert (same.num_texts, same.num_equal, same.error) == (3, 3, None)
        assert same.max_difference == pytest.approx(
            5e-5 * (outputs is rounded), abs=1e-6
        )
    for name, place, value in (
        ("translation", 1, b"other"),
        ("translations", (1, 1), b"other"),
        ("truncated", 1, False),
        ("ids", (1, 1, 1), 3),
        ("length", 1, 77),
        ("target_tokens", (1, 0), b"other"),
        ("source_words", (1, 0, 1), 1),
        ("alignment", (1, 0, 0), 0.8),
    ):
        other = compare(changed(name, place, value))
        assert (other.num_texts, other.num_equal) == (3, 2)
        assert repr(TEXTS[1]) in other.error
        assert compare(changed(name, place, value), "int8").error
    for name in ("score", "scores", "token_log_probs"):
        for value in (0.01, np.nan):
            other = compare(changed(name, 1, value))
            assert other.num_equal == 3 and repr(TEXTS[1]) in other.error
        assert compare(changed(name, 1, 0.01), "int8").error is None


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
        select_inputs(["text", "gate"], ["a"], ["b"], [[3]], [("", "")])


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
