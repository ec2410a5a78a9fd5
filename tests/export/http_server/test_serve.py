"""The command: a server as a process, and what it refuses to serve."""

import concurrent.futures
import contextlib
import errno
import os
import signal
import socket
import subprocess

import pytest

from tests import made_up_text, processes
from tests.export import commands
from tests.export.http_server.running import request


def serve(*flags):
    return commands.run("export.serve", None, [], *flags)


@contextlib.contextmanager
def running(model):
    """Starts the command; yields its process and address."""
    process = processes.start(
        {"module": "export.serve"},
        [f"--model={model}", "--port=0", "--host=::"],
        stdout=subprocess.PIPE,
        imported=False,
    )
    try:
        line = process.stdout.readline().decode()
        url = line.split(" on ")[1].strip().rstrip("/")
        # All addresses, those of IPv4 too.
        yield process, url.replace("[::]", "127.0.0.1")
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model directory", "export"])
def test_a_server_answers_like_the_model_and_finishes_requests(
    model_path, exported, truncating_translator, kind
):
    texts = [*made_up_text.sentences()[:9], "", "g " * 40]
    model = exported.parent if kind == "export" else model_path
    with (
        running(model) as (process, url),
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        path = f"{url}/v1/models/translator:predict"
        found = request(path, {"instances": texts[:9]})[1]["predictions"]
        expected = truncating_translator.translate(texts[:9])
        for row, translation in zip(found, expected, strict=True):
            assert row["translation"] == translation.text
            assert row["score"] == pytest.approx(translation.score, abs=1e-3)
        code, lines, _ = commands.run(
            "export.client", None, texts[:9], f"--url={url}"
        )
        assert (code, lines) == (0, [each.text for each in expected])
        content = {"q": texts * 20, "source": "auto", "target": "und"}
        late = [
            pool.submit(request, f"{url}/translate", content) for _ in range(6)
        ]
        # Accepted before the signal: the answer of each must be whole.
        while request(f"{url}/metrics")[1].count("waiting_texts 0.0"):
            if any(each.done() for each in late):
                break
        process.send_signal(signal.SIGTERM)
        results = []
        for each in late:
            with contextlib.suppress(OSError):
                results.append(each.result(60))
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert results
    for status, content in results:
        assert status == 200
        assert content["translatedText"][9] == ""


@pytest.mark.parametrize("kind", ["nothing", "empty", "no weights"])
def test_what_is_no_model_is_one_line(tmp_path, model_path, kind):
    path = tmp_path / "model"
    if kind != "nothing":
        path.mkdir()
    if kind == "no weights":
        for name in ("config.json", "vocabulary.model"):
            content = (model_path / name).read_bytes()
            (path / name).write_bytes(content)
    code, lines, err = serve(f"--model={path}", "--port=0")
    assert (code, lines) == (2, [])
    assert str(path) in err[-1]


def test_a_busy_port_and_a_wrong_name_are_one_line(model_path):
    for host, family, shown in (
        ("127.0.0.1", socket.AF_INET, "127.0.0.1"),
        ("::1", socket.AF_INET6, "[::1]"),
    ):
        with socket.create_server((host, 0), family=family) as other:
            port = other.getsockname()[1]
            code, _, err = serve(
                f"--model={model_path}", f"--host={host}", f"--port={port}"
            )
        assert code == 2
        assert f"{shown}:{port}" in err[-1]
        assert os.strerror(errno.EADDRINUSE) in err[-1]
    code, _, err = serve(f"--model={model_path}", "--model_name=a/b")
    assert code == 2
    assert "a/b" in err[-1]


def test_an_export_takes_no_search_flags(exported):
    code, _, err = serve(f"--model={exported}", "--beam_size=2", "--port=0")
    assert code == 2
    assert "--beam_size" in err[-1]
