"""The server's interfaces, as their clients use them."""

import concurrent.futures
import ctypes
import json
import re
import socket
import threading
import time
import urllib.parse

import numpy as np
import psutil
import pytest

from export.http_server import app
from export.http_server.batcher import Batcher
from tests.export import commands
from tests.export.http_server.running import (
    MadeUpModel,
    request,
    run_server,
    translate,
)

PREDICT = "/v1/models/translator:predict"


@pytest.fixture(scope="module")
def model():
    return MadeUpModel()


@pytest.fixture(scope="module")
def url(model):
    with run_server(model, max_bytes=10_000, max_texts=8, timeout=2.0) as url:
        yield url


def test_libretranslate(url):
    assert request(f"{url}/languages")[1] == [
        {
            "code": "en",
            "name": "en",
            "targets": ["fr"],
            "models": {"fr": "translator"},
            "tags": [],
        }
    ]
    fields = {"q": "one two", "source": "en", "target": "fr"}
    path = f"{url}/translate"
    assert request(path, fields) == (200, {"translatedText": "TWO ONE"})
    form = urllib.parse.urlencode(fields | {"source": "auto"}).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert request(path, form, kind) == (200, {"translatedText": "TWO ONE"})
    form = b"q=&target=fr"
    kind = {"Content-Type": "Application/X-WWW-Form-URLencoded; charset=UTF-8"}
    assert request(path, form, kind) == (200, {"translatedText": ""})
    status, response = request(path, form + b"&q=a", kind)
    assert (status, "once" in response["error"]) == (400, True)
    fields["q"] = ["a b", "", "caf\u00e9 \U0001f600"]
    assert request(path, fields | {"alternatives": 2}) == (
        200,
        {
            "translatedText": ["B A", "", "CAF\u00c9 \U0001f600"],
            "alternatives": [["B A!"], [], ["CAF\u00c9! \U0001f600"]],
        },
    )
    assert request(f"{url}/health") == (200, {"status": "ok"})


def test_documents_are_translated_sentence_by_sentence(url):
    path = f"{url}/translate"
    text = "one two. three four!\r\n\r\n  - five six\n7"
    assert request(path, {"q": text, "target": "fr"}) == (
        200,
        {"translatedText": "TWO. ONE FOUR! THREE\r\n\r\n  - SIX FIVE\n7"},
    )
    html = '<p title="x">one <b>two</b> &amp; three<hr>{x}'
    fields = {"q": [html, "a b"], "target": "fr", "format": "html"}
    assert request(path, fields) == (
        200,
        {
            "translatedText": [
                '<p title="x">THREE &amp; <b>TWO</b> ONE<hr>{x}',
                "B A",
            ]
        },
    )


def test_tensorflow_serving(url):
    expected = {"translation": "B A", "score": -3.0, "truncated": False}
    for row in ("a b", {"text": "a b"}):
        found = request(url + PREDICT, {"instances": [row]})
        assert found == (200, {"predictions": [expected]})
    content = {"signature_name": "n_best", "inputs": {"text": ["a", "b c"]}}
    status, found = request(url + PREDICT, content)
    assert status == 200
    assert found["outputs"]["translations"] == [
        ["A", "A!", ""],
        ["C B", "C B!", ""],
    ]
    for flags, expected in (
        ([], ["B A", "C"]),
        (["--alignments"], ["B A\t0-1 1-0", "C\t0-0"]),
    ):
        code, lines, _ = commands.run(
            "export.client", None, ["a b", "c"], f"--url={url}", *flags
        )
        assert (code, lines) == (0, expected)


def test_files_of_the_client(url, tmp_path):
    contents = {"a.json": '{"x": "a b"}', "b.txt": "a b\n", "c.exe": ""}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, "utf-8")
    files, out = [*sorted(tmp_path.iterdir())], tmp_path / "out"
    code, lines, err = commands.run(
        *("export.client", None, [], f"--url={url}", *map(str, files)),
        f"--output_dir={out}",
    )
    assert (code, lines) == (2, [str(out / "a.json"), str(out / "b.txt")])
    assert "c.exe" in err[-1]
    assert json.loads((out / "a.json").read_text("utf-8")) == {"x": "B A"}
    assert (out / "b.txt").read_text("utf-8") == "B A\n"


@pytest.mark.parametrize(
    "path, content, status, name",
    [
        ("/translate", b"", 400, "JSON"),
        ("/translate", b"{", 400, "JSON"),
        ("/translate", b"\xff\xfe", 400, "UTF-8"),
        ("/translate", b"[" * 5_000, 400, "JSON"),
        ("/translate", [], 400, "JSON"),
        ("/translate", {"target": "fr"}, 400, "q"),
        ("/translate", {"q": 1, "target": "fr"}, 400, "q"),
        ("/translate", {"q": [1], "target": "fr"}, 400, "q"),
        ("/translate", {"q": ["a"] * 9, "target": "fr"}, 400, "q"),
        ("/translate", {"q": "\ud800", "target": "fr"}, 400, "q"),
        ("/translate", {"q": "a", "target": "de"}, 400, "target language"),
        ("/translate", {"q": "a", "target": "\ud800"}, 400, "target"),
        ("/translate", {"q": "a", "target": ["fr"]}, 400, "target"),
        (
            "/translate",
            {"q": "a", "target": "fr", "source": "\ud800"},
            400,
            "source",
        ),
        (
            "/translate",
            {"q": "a", "target": "fr", "format": "xml"},
            400,
            "format",
        ),
        *(
            (
                "/translate",
                {"q": "a", "target": "fr", "alternatives": bad},
                400,
                "alternatives",
            )
            for bad in (-1, 3, "x", [], True, "9" * 5_000)
        ),
        ("/translate", {"q": "a" * 10_000, "target": "fr"}, 413, "bytes"),
        (PREDICT, {}, 400, "inputs"),
        (PREDICT, {"instances": "a"}, 400, "instances"),
        (PREDICT, {"instances": [{"x": 1}]}, 400, "instances"),
        (PREDICT, {"inputs": {"text": 3}}, 400, "inputs"),
        (PREDICT, {"inputs": "a"}, 400, "list"),
        (PREDICT, {"inputs": ["a"], "instances": ["b"]}, 400, "both"),
        (PREDICT, {"instances": [{"text": "a", "to": "b"}]}, 400, "names"),
        (PREDICT, {"inputs": {"text": ["a"], "to": ["b"]}}, 400, "inputs"),
        *(
            (
                PREDICT,
                {"instances": ["a"], "signature_name": bad},
                400,
                "signature_name",
            )
            for bad in ("tokens", "x", ["n_best"])
        ),
    ],
)
def test_wrong_requests_are_refused(url, path, content, status, name):
    found, response = request(url + path, content)
    assert found == status
    assert name in response["error"]
    assert request(f"{url}/health")[0] == 200


@pytest.mark.parametrize(
    "path", ["/v1/models/other:predict", "/download", "/x"]
)
def test_unknown_paths_are_not_found(url, path):
    status, response = request(url + path, {"instances": ["a"]})
    assert (status, path in response["error"]) == (404, True)
    status, response = request(f"{url}/translate")
    assert (status, "GET" in response["error"]) == (405, True)


@pytest.mark.parametrize(
    "lines",
    [
        ["POST /translate HTTP/1.1", "Host: x", "Content-Length: 5"],
        [
            *("POST /translate HTTP/1.1", "Host: x", "Content-Length: 5"),
            *("Transfer-Encoding: chunked", "", "0", "", "GET / HTTP/1.1"),
        ],
        ["POST /translate HTTP/1.1", "Host: x", "Content-Length: 3, 5", ""],
        ["nonsense"],
    ],
)
def test_broken_http_gets_an_error_and_harms_no_other(url, lines):
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as sent:
        sent.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        status = sent.recv(1000).split(b" ", 2)[1]
    assert status[:1] == b"4"
    assert request(f"{url}/health")[0] == 200


def test_a_failure_of_the_model_is_an_error_of_its_requests_only(url):
    fields = {"q": "fail", "target": "fr"}
    assert request(f"{url}/translate", fields)[0] == 500
    fields["q"] = "a b"
    assert request(f"{url}/translate", fields)[1] == {"translatedText": "B A"}


def test_metrics_count_requests():
    with run_server(MadeUpModel()) as url:
        for target in ("fr", "fr", "de"):
            request(f"{url}/translate", {"q": "a", "target": target})
        _, text = request(f"{url}/metrics")
    lines = text.splitlines()
    for status, count in ((200, 2), (400, 1)):
        name = f'requests_total{{path="/translate",status="{status}"}}'
        assert f"{name} {count}.0" in lines
    assert "waiting_texts 0.0" in lines


def test_a_key_is_required_in_either_place():
    fields = {"q": "a", "target": "fr"}
    with run_server(MadeUpModel(), api_key="s\u00e9cret") as url:
        path = f"{url}/translate"
        for bad in (
            {},
            {"api_key": "x"},
            {"api_key": 1},
            {"api_key": "\ud800"},
        ):
            assert request(path, fields | bad)[0] == 403
        assert request(path, fields | {"api_key": "s\u00e9cret"})[0] == 200
        assert request(f"{url}/health")[0] == 200
    with run_server(MadeUpModel(), api_key="secret") as url:
        header = {"Authorization": "Bearer secret"}
        assert request(url + PREDICT, {"instances": ["a"]}, header)[0] == 200
        assert request(url + PREDICT, {"instances": ["a"]})[0] == 403


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end


def count_waiting(url):
    _, text = request(f"{url}/metrics")
    (line,) = re.findall("^waiting_texts (.*)$", text, re.MULTILINE)
    return float(line)


def test_concurrent_requests_are_merged_and_none_is_mixed_up():
    model = MadeUpModel()
    generator = np.random.default_rng(1)
    texts = [
        " ".join(
            f"w{word}"
            for word in generator.integers(0, 99, generator.integers(2, 9))
        )
        for _ in range(300)
    ]

    def ask(number):
        if number % 3:
            fields = {"q": texts[number], "target": "fr"}
            return request(f"{url}/translate", fields)[1]["translatedText"]
        content = {"signature_name": "align", "instances": [texts[number]]}
        (row,) = request(url + PREDICT, content)[1]["predictions"]
        return row["translation"]

    model.gate.clear()
    with (
        run_server(model, max_batch=16) as url,
        concurrent.futures.ThreadPoolExecutor(32) as pool,
    ):
        results = pool.map(ask, range(len(texts)))
        # The first requests of all callers have come.
        wait_until(lambda: sum(model.batches) + count_waiting(url) >= 32)
        model.gate.set()
        found = [*results]
    assert found == [*map(translate, texts)]
    assert sum(model.batches) == len(texts)
    assert 10 < max(model.batches) <= 16


def test_terms_that_are_many_together_run_apart():
    def run(signature, inputs):
        gate.wait()
        rows = inputs["target_terms"]
        batches.append([len(rows[0]), max(map(len, sum(rows, [])))])
        return {"text": inputs["text"]}

    gate, batches = threading.Event(), []
    batcher = Batcher(run, max_batch=9, max_waiting=9, num_threads=1)
    results = [
        batcher.submit("", {"text": ["a"], "target_terms": [terms]})
        for terms in (["b"], ["long" * 99], ["b"] * 40, ["b"] * 64)
    ]
    gate.set()
    assert [each.result()["text"] for each in results] == [[b"a"]] * 4
    batcher.close()
    assert [1, 396] in batches and [64, 1] in batches


def test_a_full_queue_and_slow_answers_are_errors():
    limits = {"max_waiting": 2, "num_threads": 1, "max_batch": 1}
    fields = {"q": "a", "target": "fr"}
    model = MadeUpModel()
    model.gate.clear()
    with run_server(model, timeout=0.5, **limits) as url:
        path = f"{url}/translate"
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            requests = pool.map(lambda _: request(path, fields), range(12))
            statuses = [status for status, _ in requests]
        # One runs and two wait, unless a request came before the first ran.
        assert set(statuses) == {429, 504}
        assert statuses.count(504) in (2, 3)
        model.gate.set()
        wait_until(lambda: request(path, fields)[0] == 200)
        assert request(path, fields) == (200, {"translatedText": "A"})


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs GNU's libc"
)
def test_freed_memory_is_returned_while_the_server_runs(monkeypatch):
    def read_memory():
        return psutil.Process().memory_info().rss

    monkeypatch.setattr(app, "_TRIM_SECONDS", 0.5)
    with run_server(MadeUpModel()):
        # Too small to be returned when freed; every 100th is kept.
        blocks = [bytearray(60_000) for _ in range(4000)]
        kept, full = blocks[::100], read_memory()
        del blocks
        wait_until(lambda: read_memory() < full - 150e6)
        assert len(kept) == 40


def test_json_numbers_are_those_of_the_model(url):
    content = {"signature_name": "align", "inputs": ["a b c"]}
    _, found = request(url + PREDICT, content)
    outputs = MadeUpModel().run("align", {"text": [b"a b c"]})
    for name in ("alignment", "source_words", "score"):
        assert json.dumps(found["outputs"][name]) == json.dumps(
            outputs[name].tolist()
        )
