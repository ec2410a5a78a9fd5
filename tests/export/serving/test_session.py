"""ServerSession on small SavedModels, and what it refuses to run."""

import numpy as np
import pytest
import tensorflow as tf

from export.serving.session import (
    SERVER_ERRORS,
    ServerSession,
    read_meta_graph,
    unsupported_operations,
)


def saved(folder, function, shape=(None,)):
    """Saves one function of text."""
    module = tf.Module()
    module.call = tf.function(
        lambda text: {"y": function(text)},
        input_signature=[tf.TensorSpec(shape, tf.string, "text")],
        autograph=False,
    )
    tf.saved_model.save(module, str(folder), {"call": module.call})
    return folder


def test_requests_are_answered_and_wrong_ones_refused(tmp_path):
    # TensorFlow takes a path for a pattern.
    path = tmp_path / "it's [1] x*"
    saved(path, lambda text: tf.strings.join([text, text]), [None, None])
    with ServerSession(path) as session:
        for text in ([["a", b"\x00\xff"], ["", "\u00e9" * 40]], [["x"]]):
            answer = session.run("call", {"text": text})["y"].tolist()
            assert answer == [
                [2 * (x if isinstance(x, bytes) else x.encode()) for x in row]
                for row in text
            ]
        empty = {"text": np.empty([0, 3], object)}
        assert session.run("call", empty)["y"].shape == (0, 3)
        for signature, inputs in (
            ("other", {"text": [["a"]]}),
            ("call", {"other": 1, "text": [["a"]]}),
            ("call", {}),
            ("call", {"text": ["a"]}),
            ("call", {"text": [["a"], ["b", "c"]]}),
        ):
            with pytest.raises((*SERVER_ERRORS, TypeError)):
                session.run(signature, inputs)


def test_a_folder_without_a_model_is_an_error(tmp_path):
    for content in (None, b"no model"):
        if content:
            (tmp_path / "saved_model.pb").write_bytes(content)
        for load in (ServerSession, read_meta_graph):
            with pytest.raises(SERVER_ERRORS):
                load(tmp_path)


def call_python(text):
    return tf.numpy_function(lambda rows: rows, [text], tf.string)


def test_foreign_operations_are_named(tmp_path):
    compiled = tf.function(lambda text: tf.shape(text), jit_compile=True)
    for number, (function, shape, expected) in enumerate(
        [
            (tf.strings.upper, [None], []),
            (call_python, [None], ["PyFunc"]),
            (compiled, [None], ["_XlaMustCompile"]),
            (tf.io.read_file, [], ["ReadFile"]),
            (tf.io.matching_files, [None], ["MatchingFiles"]),
        ]
    ):
        path = saved(tmp_path / str(number), function, shape)
        assert unsupported_operations(read_meta_graph(path)) == expected
