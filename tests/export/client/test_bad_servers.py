"""Servers that are away, slow, closed, or no TensorFlow Serving at all."""

import socket
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from export.client import rest_server
from export.client.grpc_server import GrpcServer
from export.client.remote_translator import RemoteTranslator
from export.client.rest_server import RestServer
from export.client.served_model import ModelServer, ServedModel, Unavailable
from export.common.errors import InputError
from tests.export.client import fake_serving

MODEL = ServedModel("translator")
GOOD = {"translation": ["c", "d"], "score": [-1.0, -2.0]}


def ask_rest(address, signature="serving_default", timeout=5):
    return RestServer(f"http://{address}", MODEL, timeout).ask(
        signature, ["a", "b"]
    )


def ask_grpc(address, timeout=5):
    return GrpcServer(address, MODEL, timeout).ask("serving_default", ["a"])


@pytest.fixture(params=[ask_rest, ask_grpc])
def ask(request):
    return request.param


def test_a_refused_connection(ask):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable, match="(?i)does not answer.*refused"):
        ask(f"127.0.0.1:{port}")


@pytest.mark.parametrize("scheme", ["http", "https", "grpc"])
def test_a_server_that_hangs(scheme):
    with (
        fake_serving.answering(None) as address,
        pytest.raises(InputError, match="did not answer within 0.3 s") as error,
    ):
        if scheme == "grpc":
            ask_grpc(address, timeout=0.3)
        else:
            RestServer(f"{scheme}://{address}", MODEL, 0.3).ask("x", ["a"])
    assert not isinstance(error.value, Unavailable)


@pytest.mark.parametrize("content", [b"", b"\x00\x01 garbage\r\n\r\n"])
def test_a_server_that_closes_or_speaks_another_protocol(ask, content):
    with (
        fake_serving.answering(content) as address,
        pytest.raises(Unavailable, match="does not answer"),
    ):
        ask(address)


_HEAD = b"HTTP/1.1 200 OK\r\n"
# HTTP/2: no settings; then one ping after the other.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)


@pytest.mark.parametrize(
    ("ask", "first", "part"),
    [
        (ask_rest, b"", b"H"),
        (ask_rest, _HEAD, b"A: b\r\n"),
        (ask_rest, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (ask_rest, _HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
        (ask_rest, _HEAD + b"\r\n", b" "),
        (ask_grpc, _SETTINGS, _PING),
    ],
    ids=["line", "headers", "continue", "body", "endless", "grpc"],
)
def test_each_part_comes_in_time_and_the_whole_never(ask, first, part):
    before = threading.active_count()
    with fake_serving.dripping(first, part) as address:
        with pytest.raises(InputError, match="did not answer within 0.5 s"):
            ask(address, timeout=0.5)
        _wait_for_threads(before + 1)


def _wait_for_threads(count):
    """What asked has ended, though the server has not."""
    for _ in range(200):
        if threading.active_count() <= count:
            return
        time.sleep(0.05)
    raise AssertionError(threading.enumerate())


def test_a_name_that_is_found_too_late_gets_no_request(monkeypatch):
    found, look_up = threading.Event(), socket.getaddrinfo

    def late(*arguments, **options):
        found.wait(60)
        return look_up(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        with pytest.raises(InputError, match="did not answer within 0.2 s"):
            ask_rest(f"127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)
        found.set()
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(1) == b""


def test_an_answer_that_stops_half_way():
    content = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
    with (
        fake_serving.answering(content) as address,
        pytest.raises(Unavailable, match="does not answer"),
    ):
        ask_rest(address)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"\xff",
        b"[1]",
        b'{"outputs"',
        b'{"predictions": []}',
        b'{"outputs": ["c", "d"]}',
        b"[" * 100_000,
    ],
)
def test_an_answer_that_is_no_prediction(body):
    content = fake_serving.http_answer(body)
    with (
        fake_serving.answering(content) as address,
        pytest.raises(InputError, match="TensorFlow Serving listens") as error,
    ):
        ask_rest(address)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


def test_an_answer_without_end(monkeypatch):
    monkeypatch.setattr(rest_server, "MAX_ANSWER_BYTES", 100_000)
    content = fake_serving.http_answer(b" " * 200_000)
    with (
        fake_serving.answering(content) as address,
        pytest.raises(InputError, match="100,000 bytes"),
    ):
        ask_rest(address)


@pytest.mark.parametrize(
    "address", ["host:port", "a..b:8501", "localhost:1/m\u00f6del"]
)
def test_an_address_that_no_request_could_hold(address):
    with pytest.raises(InputError, match="is not an address"):
        ask_rest(address)


@pytest.mark.parametrize(
    "status, body, kind, words",
    [
        ("404 Not Found", b"<html>", InputError, "does not serve translator"),
        ("400 Bad", b'{"error": "no\\nkey"}', InputError, "HTTP 400, no key"),
        ("500 Oh", b'{"error": "out of memory"}', InputError, "out of memory"),
        ("500 Oh", b'{"error": 7}', InputError, "HTTP 500, 7"),
        ("503 Busy", b'{"error": "queue full"}', Unavailable, "queue full"),
        ("301 Moved", b"", InputError, "HTTP 301"),
    ],
)
def test_statuses(status, body, kind, words):
    content = fake_serving.http_answer(body, status)
    with (
        fake_serving.answering(content) as address,
        pytest.raises(InputError) as error,
    ):
        ask_rest(address, "x")
    assert type(error.value) is kind
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "code, kind, words",
    [
        ("NOT_FOUND", InputError, "does not serve translator: NOT_FOUND, why"),
        ("INVALID_ARGUMENT", InputError, "refused"),
        ("UNAVAILABLE", Unavailable, "UNAVAILABLE, why"),
        ("RESOURCE_EXHAUSTED", Unavailable, "busy"),
        ("UNIMPLEMENTED", InputError, "failed: UNIMPLEMENTED, why"),
    ],
)
def test_codes(code, kind, words):
    def predict(request, context):
        context.abort(grpc.StatusCode[code], "why")

    handler = grpc.unary_unary_rpc_method_handler(predict)
    with (
        fake_serving.grpc_server({"Predict": handler}) as target,
        pytest.raises(InputError) as error,
    ):
        ask_grpc(target)
    assert type(error.value) is kind
    assert words in str(error.value)


def tensor(sizes, **fields):
    """A response whose only output is of these sizes."""
    response = predict_pb2.PredictResponse()
    output = response.outputs["score"]
    output.dtype = tf.float32.as_datatype_enum
    for size in sizes:
        output.tensor_shape.dim.add(size=size)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(output, name).extend(value)
        else:
            setattr(output, name, value)
    return response.SerializeToString()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xff\xff",
        tensor([6], float_val=[1.0] * 12),
        tensor([-1], float_val=[1.0]),
        tensor([2], tensor_content=b"\0\0\0"),
        # A few bytes that would become gigabytes.
        tensor([1 << 29], float_val=[1.0]),
        tensor([1 << 62, 1 << 62], float_val=[1.0]),
    ],
)
def test_a_grpc_answer_that_is_no_prediction(content):
    handler = grpc.unary_unary_rpc_method_handler(lambda *_: content)
    with (
        fake_serving.grpc_server({"Predict": handler}) as target,
        pytest.raises(InputError),
    ):
        ask_grpc(target)


class Answers:
    """A server that gives what it is told to, one after the other."""

    address = "there"
    error = ModelServer.error
    _model = MODEL

    def __init__(self, *answers):
        self.answers = list(answers)

    def ask(self, signature, texts):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def remote(*answers, retries=0):
    pauses = []
    translator = RemoteTranslator(
        Answers(*answers), 64, retries, sleep=pauses.append
    )
    return translator, pauses


def test_what_is_cut_is_said():
    translator, _ = remote({**GOOD, "truncated": [False, True]})
    found = translator.n_best(["aa", "b"], 1)
    assert [each.text for (each,) in found] == ["c", "d"]
    assert [each.source_truncated for (each,) in found] == [False, True]


def test_it_asks_again_after_longer_pauses():
    busy = Unavailable("busy")
    translator, pauses = remote(busy, busy, GOOD, retries=2)
    assert translator.n_best(["aa", "b"], 1)[1][0].text == "d"
    assert pauses == [0.5, 1.0]


def test_it_gives_up_in_the_end_and_never_asks_again_about_a_refusal():
    busy = Unavailable("busy")
    translator, pauses = remote(busy, busy, GOOD, retries=1)
    with pytest.raises(Unavailable, match="busy"):
        translator.n_best(["a"], 1)
    assert pauses == [0.5]
    translator, pauses = remote(InputError("no"), GOOD, retries=3)
    with pytest.raises(InputError, match="no"):
        translator.n_best(["a"], 1)
    assert pauses == []


@pytest.mark.parametrize(
    "changes",
    [
        {"translation": ["c"]},
        {"translation": "c"},
        {"translation": [1, 2]},
        {"translation": [["c"], ["d", "e"]]},
        {"translation": [["c"], ["d"]]},
        {"translation": ["\ud800", "d"]},
        {"translation": None},
        {"translation": [[], []]},
        {"tree": ["(TOP)", "(TOP)"]},
        {"score": [[], []]},
        {"score": ["x", "y"]},
        {"score": np.zeros(2)},
        {"score": [-1.0, -1.0, -1.0]},
        {"truncated": [False]},
    ],
)
def test_answers_of_a_wrong_form_are_refused(changes):
    translator, _ = remote({**GOOD, **changes})
    with pytest.raises(InputError, match=f"there.*{[*changes][0]}"):
        translator.n_best(["aa", "b"], 1)


@pytest.mark.parametrize(
    "n_best",
    [
        {"translations": [["c", "d"]], "scores": [[-1.0]]},
        {"translations": [["c"]], "scores": [[-1.0, -2.0]]},
    ],
)
def test_n_best_must_fit_together(n_best):
    translator, _ = remote(n_best)
    with pytest.raises(InputError, match="do not fit together"):
        translator.n_best(["a"], 2)


ALIGN = {
    "translation": ["c"],
    "score": [-1.0],
    "source_words": [[[0, 0], [-1, -1]]],
    "target_words": [[[0, 0], [-1, -1]]],
    "alignment": [[[0.9, 0.1], [0.1, 0.9]]],
}


def test_alignments_must_fit_together():
    assert remote(ALIGN)[0].align(["a"])[0].alignment == ((0, 0),)
    for alignment in ([[[0.9, 0.1]]], [[[0.9], [0.1]]], [[]], [[[]]]):
        translator, _ = remote({**ALIGN, "alignment": alignment})
        with pytest.raises(InputError, match="do not fit together"):
            translator.align(["a"])
    for name in ("source_words", "target_words"):
        for words in ([[[0, 1], [-1, -1]]], [[[0], [-1]]], [[[0, 0]]]):
            translator, _ = remote({**ALIGN, name: words})
            with pytest.raises(InputError, match="do not fit together"):
                translator.align(["a"])
    nothing = {**ALIGN, "target_words": [[]], "alignment": [[]]}
    assert remote(nothing)[0].align(["a"])[0].alignment == ()


def test_an_impossible_translation_is_left_out():
    n_best = {"translations": [["c", ""]], "scores": [[-1.0, -1e9]]}
    found = remote(n_best)[0].n_best(["a"], 2)
    assert [[each.text for each in some] for some in found] == [["c"]]
    assert isinstance(found[0][0].score, float)
    assert np.isfinite(found[0][0].score)
