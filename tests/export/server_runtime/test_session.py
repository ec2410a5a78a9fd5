"""ServerSession on small SavedModels that have nothing to do with us."""

import numpy as np
import pytest
import tensorflow as tf

from export.server_runtime.session import ServerSession
from export.server_runtime.tensors import as_array
from tests.export.server import Refused

ECHO = {
    "text": tf.TensorSpec([None, None], tf.string),
    "int32": tf.TensorSpec([None], tf.int32),
    "int64": tf.TensorSpec([], tf.int64),
    "float32": tf.TensorSpec(None, tf.float32),
    "bool": tf.TensorSpec([None, 2, None], tf.bool),
}


class Echo(tf.Module):
    """Gives back what it gets, and a variable."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.ones([2_000_000]))

    @tf.function(autograph=False)
    def echo(self, **inputs):
        outputs = {name: tf.identity(item) for name, item in inputs.items()}
        return outputs | {"sum": tf.reduce_sum(self.weights)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def number(self, text):
        return {"number": tf.strings.to_number(text)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def echo(folder):
    module = Echo()
    named = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, spec in ECHO.items()
    }
    signatures = {
        "echo": module.echo.get_concrete_function(**named),
        "number": module.number,
    }
    tf.saved_model.save(module, str(folder / "echo"), signatures)
    return folder / "echo"


def saved(folder, name, function):
    """Saves one function of text."""
    module = tf.Module()
    module.call = tf.function(
        function,
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
        autograph=False,
    )
    path = folder / name
    tf.saved_model.save(module, str(path), {"serving_default": module.call})
    return path


@pytest.fixture(scope="module")
def joined(folder):
    return saved(
        folder, "joined", lambda text: {"joined": tf.strings.join([text, text])}
    )


def inputs(**changes):
    return {
        "text": [[b"a", b"\x00\xff"], [b"", "\u00e9".encode() * 40]],
        "int32": [-(2**31), 0, 2**31 - 1],
        "int64": 2**62,
        "float32": [[[0.1, -np.inf]], [[3.0, 1e-40]]],
        "bool": [[[True], [False]]],
    } | changes


def test_signatures_say_names_types_and_shapes(server, echo):
    signatures = server.signatures(echo)
    assert signatures.keys() == {"echo", "number"}
    ins, outs = signatures["echo"]
    assert {name: info[1:] for name, info in ins.items()} == {
        "text": ["string", [None, None]],
        "int32": ["int32", [None]],
        "int64": ["int64", []],
        "float32": ["float32", None],
        "bool": ["bool", [None, 2, None]],
    }
    assert outs.keys() == ECHO.keys() | {"sum"}
    assert signatures["number"][0]["text"][1:] == ["string", [None]]
    assert signatures["number"][1]["number"][1:] == ["float32", [None]]


def test_every_type_and_rank_comes_back(server, echo):
    sent = inputs()
    found = server.run(echo, "echo", **sent).arrays
    assert found.pop("sum") == 2_000_000
    types = {name: array.dtype.name for name, array in found.items()}
    assert types == {
        "text": "object",
        "int32": "int32",
        "int64": "int64",
        "float32": "float32",
        "bool": "bool",
    }
    for name, array in found.items():
        expected = np.array(sent[name], array.dtype)
        assert array.shape == expected.shape
        np.testing.assert_array_equal(array, expected)


def test_empty_tensors_come_back(server, echo):
    sent = inputs(
        text=np.empty([0, 3], "U1"),
        int32=np.empty([0], "int32"),
        float32=np.empty([2, 0, 4], "float32"),
        bool=np.empty([1, 2, 0], "bool"),
    )
    found = server.run(echo, "echo", **sent).arrays
    for name in ("text", "int32", "float32", "bool"):
        assert found[name].shape == sent[name].shape, name


def test_arrays_are_sent_in_the_order_of_c():
    sent = np.arange(6, dtype="int32").reshape(2, 3).T
    array = as_array(sent, "int32")
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, sent)
    assert as_array(np.int32(3), "int32").shape == ()


def test_str_is_sent_as_utf8(server, joined):
    found = server.run(joined, text=["caf\u00e9", b"\xff\x00"])
    assert found.arrays["joined"].tolist() == [
        "caf\u00e9caf\u00e9".encode(),
        b"\xff\x00\xff\x00",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"int32": [2**31]},
        {"int32": ["one"]},
        {"int32": [[1], [2, 3]]},
        {"int32": np.zeros(2, "int64")},
        {"float32": np.zeros(2)},
        {"text": [[1]]},
        {"text": [[None]]},
        {"text": [["a"], ["b", "c"]]},
        {"other": 1},
    ],
    ids=repr,
)
def test_inputs_of_another_kind_are_refused(server, echo, changes):
    with pytest.raises(Refused) as caught:
        server.run(echo, "echo", **inputs(**changes))
    assert caught.value.args[0] == "INVALID_ARGUMENT"
    assert server.run(echo, "number", text=["1"]).arrays["number"] == [1.0]


def test_an_error_of_the_runtime_has_its_code_and_message(server, echo):
    with pytest.raises(Refused) as caught:
        server.run(echo, "number", text=["1", "two"])
    code, message = caught.value.args
    assert code == "INVALID_ARGUMENT"
    assert "StringToNumberOp could not correctly convert string: two" in message


def test_a_folder_without_a_model_is_an_error(server, tmp_path):
    with pytest.raises(Refused) as caught:
        server.load(tmp_path)
    assert caught.value.args[0] == "NOT_FOUND"
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(Refused):
        server.load(tmp_path)


def test_what_needs_xla_fails_as_in_a_stock_server(server, folder):
    compiled = tf.function(lambda x: x * 2.0, jit_compile=True)
    path = saved(
        folder,
        "xla",
        lambda text: {"y": compiled(tf.strings.to_number(text))},
    )
    with pytest.raises(Refused, match="XLA compilation disabled"):
        server.run(path, text=["1"])


def test_what_needs_python_fails_as_in_a_stock_server(server, folder):
    def call(text):
        (upper,) = tf.numpy_function(
            lambda rows: [row.upper() for row in rows], [text], [tf.string]
        )
        return {"y": tf.ensure_shape(upper, [None])}

    path = saved(folder, "python", call)
    with pytest.raises(Refused, match="PyFunc"):
        server.run(path, text=["a"])


def test_many_threads_get_the_answers_that_one_gets(server, joined):
    texts = [[f"{n}" * n] * n for n in range(20)]
    assert server.answers_in_threads(joined, texts, threads=64, times=50)


def test_long_use_does_not_grow(server, joined):
    # Each request takes and gives a megabyte; 200 of them would show.
    text = [b"x" * 100_000] * 5
    assert server.growth(joined, 200, text=text) < 30


def test_many_errors_do_not_grow(server, folder):
    path = saved(
        folder, "number", lambda text: {"y": tf.strings.to_number(text)}
    )
    # Its message quotes the text: 60 megabytes in all.
    text = [b"x" * 300_000]
    with pytest.raises(Refused):
        server.run(path, text=text)
    assert server.growth_of_errors(path, 200, text=text) < 30


def test_closed_models_are_freed(server, echo):
    # Eight megabytes of weights each.
    assert server.growth_of_loading(echo, 20) < 60


def test_close_waits_for_what_is_running_and_refuses_the_rest(server, joined):
    text = [b"x" * 100] * 1000
    last = server.close_while_running(joined, text=text)
    assert last == "This session is closed."


def test_close_may_be_called_twice(server, folder):
    path = saved(folder, "twice", lambda text: {"y": tf.identity(text)})
    server.load(path)
    server.close(path)
    server.close(path)


def test_a_process_with_pythons_tensorflow_is_no_server(echo):
    with pytest.raises(RuntimeError, match="imported tensorflow"):
        ServerSession(echo)
