"""ServerSession on small SavedModels, and what it refuses to run."""

import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from export.serving.session import (
    SERVER_ERRORS,
    ServerSession,
    foreign_operations,
    read_meta_graph,
)


class Echo(tf.Module):
    """Gives back what it gets, and the sum of a variable."""

    specs = {
        "text": tf.TensorSpec([None, None], tf.string, "text"),
        "int64": tf.TensorSpec([], tf.int64, "int64"),
        "float32": tf.TensorSpec(None, tf.float32, "float32"),
        "bool": tf.TensorSpec([None, 2, None], tf.bool, "bool"),
    }

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.ones([2_000]))

    @tf.function(autograph=False)
    def echo(self, **inputs):
        outputs = {name: tf.identity(item) for name, item in inputs.items()}
        return outputs | {"sum": tf.reduce_sum(self.weights)}


INPUTS = {
    "text": [[b"a", b"\x00\xff"], [b"", "\u00e9" * 40]],
    "int64": 2**62,
    "float32": [[[0.1, -np.inf]], [[3.0, 1e-40]]],
    "bool": [[[True], [False]]],
}


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


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    module, path = Echo(), tmp_path_factory.mktemp("it's [1] x*")
    function = module.echo.get_concrete_function(**module.specs)
    tf.saved_model.save(module, str(path), {"echo": function})
    with ServerSession(path) as session:
        yield session


def test_every_type_and_rank_comes_back(echo):
    found = echo.run("echo", INPUTS)
    assert found.pop("sum") == 2_000
    assert found.pop("text").tolist() == [
        [b"a", b"\x00\xff"],
        [b"", "\u00e9".encode() * 40],
    ]
    for name, array in found.items():
        assert array.dtype == name
        np.testing.assert_array_equal(array, np.array(INPUTS[name], name))
    empty = INPUTS | {"text": np.empty([0, 3], object)}
    assert echo.run("echo", empty)["text"].shape == (0, 3)


@pytest.mark.parametrize(
    "signature, changes",
    [
        ("other", {}),
        ("echo", {"other": 1}),
        ("echo", {"int64": "one"}),
        ("echo", {"bool": [True]}),
        ("echo", {"text": [["a"], ["b", "c"]]}),
    ],
)
def test_wrong_requests_are_refused(echo, signature, changes):
    with pytest.raises((*SERVER_ERRORS, TypeError)):
        echo.run(signature, INPUTS | changes)
    assert echo.run("echo", INPUTS)["sum"] == 2_000


def test_many_threads_get_the_answers_that_one_gets(echo):
    def ask(number):
        text = [[f"{number}" * number, "x"]] * number
        return echo.run("echo", INPUTS | {"text": text})["text"].tolist()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for number, answer in enumerate(pool.map(ask, range(1, 99)), 1):
            expected = [f"{number}".encode() * number, b"x"]
            assert answer == [expected] * number


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_folder_without_a_model_is_an_error(tmp_path, content):
    if content:
        (tmp_path / "saved_model.pb").write_bytes(content)
    for load in (ServerSession, read_meta_graph):
        with pytest.raises(SERVER_ERRORS):
            load(tmp_path)


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
def test_foreign_operations_are_named(tmp_path, function, shape, expected):
    saved(tmp_path, function, shape)
    assert foreign_operations(read_meta_graph(tmp_path)) == expected
