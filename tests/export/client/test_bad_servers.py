"""Servers that are away, slow, closed, or no TensorFlow Serving at all."""

import socket

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from export.client.grpc_server import GrpcServer
from export.client.remote_backend import (
    ModelServer,
    RemoteBackend,
    ServedModel,
    UnavailableError,
)
from export.client.rest_server import RestServer
from export.common import http_json
from export.common.errors import InputError
from export.translators.translator import Translator
from tests.export.client import fake_serving

MODEL = ServedModel("translator")
GOOD = {
    "translation": ["c", "d"],
    "score": [-1.0, -2.0],
    "truncated": [False, True],
}
ONE = {"translation": ["c"], "score": [-1.0], "truncated": [False]}
N_BEST = ONE | {"translations": [["c", ""]], "scores": [[-1.0, -1e9]]}
ALIGN = ONE | {
    "source_words": [[[0, 0], [-1, -1]]],
    "target_words": [[[0, 0], [-1, -1]]],
    "alignment": [[[0.9, 0.1], [0.1, 0.9]]],
    "token_log_probs": [[-0.5, -0.25]],
}


def ask_rest(address, timeout=5, scheme="http"):
    server = RestServer(f"{scheme}://{address}", MODEL, timeout)
    return server.predict("serving_default", {"text": ["a", "b"]})


def ask_https(address, timeout=5):
    return ask_rest(address, timeout, "https")


def ask_grpc(address, timeout=5):
    server = GrpcServer(address, MODEL, timeout)
    return server.predict("serving_default", {"text": ["a"]})


@pytest.mark.parametrize("ask", [ask_rest, ask_grpc])
def test_a_server_that_is_away_or_speaks_another_protocol(ask):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnavailableError, match="(?i)refused"):
        ask(f"127.0.0.1:{port}")
    for content in (
        b"",
        b"\x00\x01 garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
    ):
        with (
            fake_serving.raw_server(content) as address,
            pytest.raises(UnavailableError),
        ):
            ask(address)


_HEAD = b"HTTP/1.1 200 OK\r\n"
# HTTP/2: no settings; then one ping after the other.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)


@pytest.mark.parametrize(
    ("ask", "first", "part"),
    [
        *((ask, None, b"") for ask in (ask_rest, ask_https, ask_grpc)),
        (ask_rest, _HEAD, b"A: b\r\n"),
        (ask_rest, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (ask_rest, _HEAD + b"\r\n", b" "),
        (ask_grpc, _SETTINGS, _PING),
    ],
)
def test_the_whole_answer_never_comes(ask, first, part):
    with fake_serving.raw_server(first, part) as address:
        with pytest.raises(InputError, match="within 0.3 s") as error:
            ask(address, timeout=0.3)
        assert not isinstance(error.value, UnavailableError)


def test_rest_answers_without_prediction(monkeypatch):
    monkeypatch.setattr(http_json, "MAX_RESPONSE_BYTES", 100_000)
    for status, body, reason in (
        ("200 OK", b"<html>", ""),
        ("200 OK", b"\xff", ""),
        ("200 OK", b"[1]", ""),
        ("200 OK", b'{"predictions": []}', ""),
        ("200 OK", b'{"outputs": ["c", "d"]}', ""),
        ("200 OK", b"[" * 100_000, ""),
        ("200 OK", b" " * 200_000, "100,000 bytes"),
        ("404 Not Found", b"<html>", "not serve translator"),
        ("400 Bad", b'{"error": "no\\nkey"}', "HTTP 400, no key"),
        ("500 Oh", b'{"error": 7}', "HTTP 500, 7"),
        ("503 Busy", b'{"error": "queue full"}', "queue full"),
    ):
        content = fake_serving.http_answer(body, status)
        with (
            fake_serving.raw_server(content) as address,
            pytest.raises(InputError) as error,
        ):
            ask_rest(address)
        is_busy = status.startswith("503")
        assert isinstance(error.value, UnavailableError) == is_busy
        message = str(error.value)
        assert reason in message and "\n" not in message
        assert len(message) < 600


def test_grpc_codes():
    for code, can_retry, reason in (
        ("NOT_FOUND", False, "translator: NOT_FOUND, why"),
        ("INVALID_ARGUMENT", False, "refused"),
        ("UNAVAILABLE", True, "UNAVAILABLE, why"),
        ("RESOURCE_EXHAUSTED", True, "busy"),
        ("UNIMPLEMENTED", False, "failed: UNIMPLEMENTED, why"),
    ):

        def abort(_, context, code=code):
            context.abort(grpc.StatusCode[code], "why")

        with (
            fake_serving.grpc_server(abort) as target,
            pytest.raises(InputError, match=reason) as error,
        ):
            ask_grpc(target)
        assert isinstance(error.value, UnavailableError) == can_retry


def tensor(sizes, floats=(), content=b""):
    """A response whose only output is of these sizes."""
    response = predict_pb2.PredictResponse()
    output = response.outputs["score"]
    output.dtype = tf.float32.as_datatype_enum
    for size in sizes:
        output.tensor_shape.dim.add(size=size)
    output.float_val.extend(floats)
    output.tensor_content = content
    return response.SerializeToString()


def test_grpc_answers_without_prediction():
    contents = [
        b"\xff\xff\xff",
        tensor([6], [1.0] * 12),
        tensor([-1], [1.0]),
        tensor([2], content=b"\0\0\0"),
        # A few bytes that would become gigabytes.
        tensor([1 << 29], [1.0]),
        tensor([1 << 62, 1 << 62], [1.0]),
    ]
    for content in contents:
        with (
            fake_serving.grpc_server(lambda *_, one=content: one) as target,
            pytest.raises(InputError),
        ):
            ask_grpc(target)


class Answers:
    """A server that gives some answers or errors, one after the other."""

    address = "there"
    error = ModelServer.error
    _model = MODEL

    def __init__(self, *answers):
        self.answers = list(answers)

    def predict(self, signature, inputs):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def remote(*answers, retries=0):
    """Returns a translator, and the list of its pauses."""
    pauses = []
    server = Answers(*answers)
    backend = RemoteBackend(server, 64, retries, sleep=pauses.append)
    return Translator(backend), pauses


def test_it_retries_after_longer_pauses_unless_it_was_refused():
    busy, refusal = UnavailableError("busy"), InputError("no")
    for answers, retries, expected, paused in (
        ([busy, busy, GOOD], 2, None, [0.5, 1.0]),
        ([busy, busy, GOOD], 1, busy, [0.5]),
        ([refusal, GOOD], 3, refusal, []),
    ):
        translator, pauses = remote(*answers, retries=retries)
        if expected is None:
            found = translator.n_best(["aa", "b"], 1)
            assert [each.text for (each,) in found] == ["c", "d"]
            truncated = [each.source_truncated for (each,) in found]
            assert truncated == GOOD["truncated"]
        else:
            with pytest.raises(InputError) as error:
                translator.n_best(["a"], 1)
            assert error.value is expected
        assert pauses == paused


def test_answers_of_a_wrong_form_are_refused():
    for changes in (
        {"translation": ["c"]},
        {"translation": "c"},
        {"translation": [["c"], ["d", "e"]]},
        {"translation": ["\ud800", "d"]},
        {"translation": None},
        {"translation": [[], []]},
        {"tree": ["(TOP)", "(TOP)"]},
        {"score": ["x", "y"]},
        {"score": np.zeros(2)},
        {"score": [-1.0, -1.0, -1.0]},
        {"truncated": [False]},
    ):
        translator, _ = remote({**GOOD, **changes})
        with pytest.raises(InputError, match=f"there.*{[*changes][0]}"):
            translator.n_best(["aa", "b"], 1)


def test_outputs_must_fit_together():
    wrong = {
        "alignment": [[[[0.9, 0.1]]], [[[0.9], [0.1]]], [[]], [[[]]]],
        "token_log_probs": [[[-0.5]], [[]], [[[-0.5, -0.25]]], ["x"]],
        "source_words": [[[[0, 1], [-1, -1]]], [[[0], [-1]]], [[[0, 0]]]],
    }
    wrong["target_words"] = wrong["source_words"]
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(InputError):
                remote({**ALIGN, name: value})[0].align(["a"])
    for changes in ({"scores": [[-1.0]]}, {"translations": [["c"]]}):
        with pytest.raises(InputError):
            remote({**N_BEST, **changes})[0].n_best(["a"], 2)


def test_alignments_and_n_best_lists():
    (found,) = remote(ALIGN)[0].align(["a"])
    assert (found.alignment, found.word_log_probs) == (((0, 0),), (-0.5,))
    no_tokens = dict.fromkeys(
        ("target_words", "alignment", "token_log_probs"), [[]]
    )
    (found,) = remote({**ALIGN, **no_tokens})[0].align(["a"])
    assert (found.alignment, found.word_log_probs) == ((), ())
    # Impossible translations are skipped.
    [[found]] = remote(N_BEST)[0].n_best(["a"], 2)
    assert (found.text, found.score) == ("c", -1.0)
    assert isinstance(found.score, float)
