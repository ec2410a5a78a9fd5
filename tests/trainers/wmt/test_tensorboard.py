"""TensorBoard itself, started on a run's logs."""

import html
import io
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest
from PIL import Image

from export.model_directory import ModelDirectory
from tests.trainers import commands

RUN = "attention"
KINDS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def ask(trained, tmp_path_factory):
    """Returns what TensorBoard answers to a path and its parameters."""
    port = _free_port()
    log = tmp_path_factory.mktemp("tensorboard") / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tensorboard.main"),
                f"--logdir={trained.path / 'logs'}",
                *("--host=127.0.0.1", f"--port={port}", "--load_fast=false"),
            ],
            env=commands.environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def get(path, **parameters):
        query = urllib.parse.urlencode(parameters)
        address = f"http://127.0.0.1:{port}/data/{path}?{query}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read()

    try:
        _wait(process, get, log)
        yield get
    finally:
        process.kill()
        process.wait()


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _wait(process, get, log):
    """Until it has read the logs."""
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            if RUN in json.loads(get("plugin/text/tags")[1]):
                return
        except urllib.error.URLError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())


def _json(ask, path, **parameters):
    return json.loads(ask(path, **parameters)[1])


def test_it_serves_the_pictures(ask):
    tags = _json(ask, "plugin/images/tags")[RUN]
    assert set(tags) == {
        f"attention_{kind}/{name}"
        for kind in KINDS
        for name in ("all_heads", "layer_1")
    }
    for tag, facts in tags.items():
        assert facts["samples"] == 2
        for sample in range(2):
            shown = _json(
                ask, "plugin/images/images", run=RUN, tag=tag, sample=sample
            )
            assert [each["step"] for each in shown] == [60, 120]
            for each in shown:
                (key,) = urllib.parse.parse_qs(each["query"])["blob_key"]
                kind, file = ask("plugin/images/individualImage", blob_key=key)
                assert kind == "image/png"
                _assert_drawn(Image.open(io.BytesIO(file)))


def _assert_drawn(picture):
    assert picture.width == 350
    colours = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
    # Letters, and blue of a weight above 0.
    assert (colours.max(axis=1) < 60).any()
    assert (colours[:, 2] - colours[:, 0] > 20).any()


def test_it_serves_the_entropies(ask):
    tags = _json(ask, "plugin/scalars/tags")[RUN]
    assert set(tags) == {
        f"attention_entropy/{kind}/layer_1/head_{head}"
        for kind in KINDS
        for head in (1, 2)
    }
    for tag in tags:
        values = _json(ask, "plugin/scalars/scalars", run=RUN, tag=tag)
        assert [step for _, step, _ in values] == [60, 120]
        # Two heads of at most 12 tokens or so.
        assert all(0 <= value < 4 for _, _, value in values)


def test_it_serves_the_translations(ask, trained):
    assert _json(ask, "plugin/text/tags")[RUN] == ["translations"]
    shown = _json(ask, "plugin/text/text", run=RUN, tag="translations")
    assert [each["step"] for each in shown] == [60, 120]
    rows = re.findall(
        r"<t[hd]>(.*?)</t[hd]>\s*<t[hd]>(.*?)</t[hd]>", shown[-1]["text"]
    )
    headings = ["source", "its tokens", "translation", "its tokens"]
    assert [name for name, _ in rows] == [*headings, "reference"] * 2
    tokenizer = ModelDirectory(trained.path).load_tokenizer()
    for source, tokens in ((rows[0][1], rows[1][1]), (rows[5][1], rows[6][1])):
        ids = tokenizer.encode([html.unescape(source)])[0]
        pieces = [tokenizer.id_to_piece(number) for number in ids]
        assert html.unescape(tokens).split() == pieces
