"""Operations that a stock server cannot run are found."""

import pytest
import tensorflow as tf

from export.errors import InputError
from export.server_runtime.saved_model import foreign_operations


def upper(text):
    return tf.numpy_function(lambda rows: rows, [text], tf.string)


COMPILED = tf.function(lambda text: tf.shape(text), jit_compile=True)


@pytest.mark.parametrize(
    ("function", "shape", "expected"),
    [
        (tf.strings.upper, [None], []),
        (upper, [None], ["PyFunc"]),
        (COMPILED, [None], ["_XlaMustCompile"]),
        (tf.io.read_file, [], ["ReadFile"]),
        (tf.io.matching_files, [None], ["MatchingFiles"]),
    ],
)
def test_they_are_named(tmp_path, function, shape, expected):
    module = tf.Module()
    module.call = tf.function(
        lambda text: {"y": function(text)},
        input_signature=[tf.TensorSpec(shape, tf.string, "text")],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), {"call": module.call})
    assert foreign_operations(tmp_path) == expected


@pytest.mark.parametrize("content", [None, b"no model"])
def test_what_is_no_saved_model_is_an_error(tmp_path, content):
    path = tmp_path / "saved_model.pb"
    if content:
        path.write_bytes(content)
    with pytest.raises(InputError, match=str(path)):
        foreign_operations(tmp_path)
