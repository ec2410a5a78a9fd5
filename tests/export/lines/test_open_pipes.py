"""Commands answer the lines that are there while their input stays open."""

import os
import re
import select
import signal

import numpy as np
import pytest

from tests import processes
from tests.export.client import fake_serving
from tests.export.parsing import tiny_parser


class _Upper:
    """Answers a client's requests at once."""

    def run(self, signature, inputs):
        assert signature == "serving_default"
        texts = [str(text).upper().encode() for text in inputs["text"]]
        return {
            "translation": np.array(texts, object),
            "score": np.zeros(len(texts), np.float32),
            "truncated": np.zeros(len(texts), bool),
        }


@pytest.fixture
def parser_path(tmp_path):
    tiny_parser.write(tmp_path / "parser")
    return tmp_path / "parser"


@pytest.fixture
def three_lines(tmp_path):
    (tmp_path / "three").write_text("ka\n" * 3)
    return tmp_path / "three"


@pytest.fixture
def three_in_a_pipe(tmp_path):
    """A pipe that stays open and has as many lines."""
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "fifo").open("r+b", buffering=0) as pipe:
        pipe.write(b"ka\n" * 3)
        yield tmp_path / "fifo"


@pytest.fixture
def address():
    pytest.importorskip("tensorflow_serving")
    with fake_serving.rest(_Upper()) as url:
        yield url


def _lines(descriptor, count):
    """Reads so many lines, which must come while nothing more is written."""
    content = b""
    while content.count(b"\n") < count:
        assert select.select([descriptor], [], [], 120)[0], "no answer"
        block = os.read(descriptor, 4096)
        assert block, "the command ended"
        content += block
    assert content.count(b"\n") == count
    assert content.endswith(b"\n")


@pytest.mark.parametrize(
    "order",
    [
        "export.translate --model={model_path}",
        "export.translate --model={model_path} --compiled --input=-",
        "export.translate --model={exported} --output=-",
        "export.translate --model={model_path} --prefixes={three_in_a_pipe}",
        "export.sample --model={model_path} --input=/dev/stdin",
        "export.score --model={model_path} --translations={three_lines}",
        "export.parse --model={parser_path}",
        "export.client --url={address}",
    ],
)
def test_a_line_is_answered_while_the_input_is_open(request, order):
    module, *flags = re.sub(
        "{(.*?)}", lambda name: str(request.getfixturevalue(name[1])), order
    ).split(" ")
    without = "{exported}" in order or "{address}" in order
    answers, output = os.pipe()
    source, sink = os.pipe()
    # As another process may leave what it shares with the command.
    for descriptor in (source, output):
        os.set_blocking(descriptor, False)
    with os.fdopen(source, "rb") as stdin, os.fdopen(output, "wb") as stdout:
        process = processes.start(
            {"module": module},
            flags,
            environment=processes.user_environment() | {"no_proxy": "*"},
            stdin=stdin,
            stdout=stdout,
            imported=not without,
        )
    os.write(sink, b"ba bi ka\n")
    _lines(answers, 1)
    os.write(sink, b"ka\nbi")
    _lines(answers, 1)
    os.write(sink, b" ba")
    os.close(sink)
    _lines(answers, 1)
    os.close(answers)
    waits_for_the_other_pipe = "{three_in_a_pipe}" in order
    if waits_for_the_other_pipe:
        process.kill()
    expected = -signal.SIGKILL if waits_for_the_other_pipe else 0
    assert process.wait() == expected
