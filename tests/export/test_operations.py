"""Operations that a stock server cannot run are found."""

import pytest
import tensorflow as tf

from export.errors import InputError
from export.operations import foreign_operations


def upper(text):
    return tf.numpy_function(lambda rows: rows, [text], tf.string)


COMPILED = tf.function(lambda text: tf.shape(text), jit_compile=True)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (tf.strings.upper, []),
        (upper, ["PyFunc"]),
        (COMPILED, ["_XlaMustCompile"]),
    ],
)
def test_they_are_named(tmp_path, function, expected):
    module = tf.Module()
    module.call = tf.function(
        lambda text: {"y": function(text)},
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
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
