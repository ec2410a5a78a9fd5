"""Pairs by a large language model: its server answers, fails and lies."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from export.common.errors import InputError
from tests.trainers import commands
from tests.trainers.synthesis.jobs import OPTIONS, pairs_in
from tests.trainers.synthesis.teacher_server import serve
from trainers.synthesis.shards import LineSource, cut_into_shards
from trainers.synthesis.teacher import DEFAULT_PROMPT, TeacherJob

LINES = [f"number {index:03d} of them" for index in range(40)]
FLAGS = (
    *("--text=text", "--source_language=en", "--target_language=fr"),
    *("--teacher_model=m", "--output_dir=out"),
)


def run(
    server,
    lines=LINES,
    num_requests=4,
    key=None,
    retries=3,
    timeout=0.5,
    **changes,
):
    """Returns the counts and pairs of all shards, and the job."""
    changes = {
        "source_language": "en",
        "target_language": "fr",
        "teacher_model": "m",
        **changes,
    }
    job = TeacherJob(
        *(server.url, changes.pop("prompt", DEFAULT_PROMPT)),
        dataclasses.replace(OPTIONS, **changes),
        *(key, retries),
        timeout=timeout,
        first_pause=0.001,
    )
    source = LineSource("lines", lambda: [(line, "") for line in lines])
    results = [*job.run(cut_into_shards(source, 7), num_requests)]
    assert [shard.index for shard, _ in results] == [*range(len(results))]
    counts = sum(
        (result.counts for _, result in results),
        start=type(results[0][1].counts)(),
    )
    return counts, sum((result.pairs for _, result in results), [])


def test_answers_are_pairs_in_order():
    has_two = threading.Event()

    def wait_for_two(number, _):
        if number > 1:
            has_two.set()
        assert has_two.wait(60)

    with serve(wait_for_two) as server:
        counts, pairs = run(server, timeout=60)
        assert pairs == [(line, line.upper()) for line in LINES]
        assert counts == {
            **{"read": 40, "translated": 40},
            **{"prompt_tokens": 400, "answer_tokens": 120},
        }
        assert 1 < server.max_open <= 4
        path, prompt, request = server.requests[0]
        assert path == "/v1/chat/completions"
        assert "language en" in prompt and "language fr" in prompt
        assert (request["model"], request["temperature"]) == ("m", 0)
        server.requests.clear()
        _, pairs = run(
            server,
            **{"teacher_api": "completions", "direction": "backward"},
            **{"decoding": "sample", "temperature": 0.7, "tag": "<bt>"},
            prompt="{target_language}: {text}",
        )
        assert pairs == [
            (f"<bt> {f'en: {line}'.upper()}", line) for line in LINES
        ]
        assert {path for path, _, _ in server.requests} == {"/v1/completions"}
        assert sorted(server.lines()) == [f"en: {line}" for line in LINES]
        request = server.requests[0][2]
        assert (request["temperature"], request["stop"]) == (0.7, ["\n"])
        seeds = sorted(each["seed"] for _, _, each in server.requests)
        assert seeds == [*range(1, 41)]


@pytest.mark.parametrize(
    "fault", [429, 500, 503, 408, "slow", "closed", "truncated", "malformed"]
)
def test_failed_requests_are_repeated(fault):
    """Every line once, in order, although each third request fails."""
    with serve(lambda number, _: None if number % 3 else fault) as server:
        counts, pairs = run(server, LINES[:9], retries=8)
        assert pairs == [(line, line.upper()) for line in LINES[:9]]
        assert len(server.requests) > 9


@pytest.mark.parametrize(
    "fault, count",
    [
        ("cut", "cut_off"),
        ("  \n", "empty_translation"),
        ("Here it is:\nOUI", "several_lines"),
        ("Старик ходит из города", "suspect"),
        ("non non non non", "suspect"),
        ("NUMBER AND MUCH MORE THAN THE LINE HAS", "length_ratio"),
    ],
)
def test_what_is_no_translation_is_counted(fault, count):
    lines = [*LINES[:5], "", "long " * 300]
    with serve(lambda _, text: fault if "3" in text else None) as server:
        counts, pairs = run(server, lines, max_ratio=2.0)
    expected = [line for line in LINES[:5] if "3" not in line]
    assert pairs == [(line, line.upper()) for line in expected]
    assert counts[count] == 1 and counts["translated"] == 4
    assert (counts["read"], counts["blank"], counts["too_long"]) == (7, 1, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302, 500])
def test_errors_end_the_work_without_the_key(status):
    with serve(lambda *_: status, key="secret-key") as server:
        for key in "secret-key", "other-key", None:
            server.requests.clear()
            with pytest.raises(InputError, match=server.url) as error:
                run(server, LINES, key=key, retries=2)
            assert "-key" not in str(error.value)
            assert len(server.requests) <= 3 * 8
    with pytest.raises(InputError, match="failed 3 times"):
        run(server, LINES[:1], retries=2)


def test_bad_settings():
    with serve() as server:
        for key in "a\nb", "ключ":
            with pytest.raises(InputError, match="TEACHER_API_KEY") as error:
                run(server, key=key)
            assert key not in str(error.value)
        with pytest.raises(InputError, match="text"):
            run(server, prompt="Translate")
    for url in "localhost:8000", "ftp://a", "http://u:p@a":
        with pytest.raises(InputError, match="teacher_url"):
            TeacherJob(url, DEFAULT_PROMPT, OPTIONS)


def start(folder, url, *flags, key="secret-key"):
    environment = os.environ | {"TEACHER_API_KEY": key}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "trainers.synthesize"),
            *(*FLAGS, f"--teacher_url={url}", *flags),
        ],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(commands.ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_killed_and_resumed(tmp_path):
    """A thousand sentences, every tenth request fails."""
    lines = [f"number {index} of them" for index in range(1000)]
    (tmp_path / "text").write_text("\n".join([*lines, ""]))

    def fault(number, _):
        return None if number % 10 else 503

    with serve(fault, key="secret-key") as server:
        flags = "--num_requests=16", "--shard_lines=25"
        process = start(tmp_path, server.url, *flags)
        while len(server.requests) < 400 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        # Not a temporary file.
        names = [path.name for path in tmp_path.glob("out/shards/*.jsonl")]
        num_done = sum(len(name) == len("0000000.jsonl") for name in names)
        assert 0 < num_done < 40
        server.wait()
        server.requests.clear()
        process = start(tmp_path, server.url, *flags)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert pairs_in(tmp_path / "out", ("en", "fr")) == [
        (line, line.upper()) for line in lines
    ]
    assert {*server.lines()} == {*lines[25 * num_done :]}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["options"]["teacher_model"] == "m"
    assert [*manifest["models"][0]["sha256"]] == ["prompt"]
    assert manifest["counts"]["answer_tokens"] == 3000
    texts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any("secret-key" in text for text in [*texts, out])


def test_estimates_and_refusals(tmp_path):
    (tmp_path / "text").write_text("one two three\n\n" + "long " * 300 + "\n")
    (tmp_path / "prompt").write_text("Translate: {text}\n")
    with (
        contextlib.closing(commands.Worker("trainers.synthesize")) as command,
        serve() as server,
    ):

        def run_command(*flags):
            url = f"--teacher_url={server.url}"
            return command.run(*FLAGS, url, *flags, folder=tmp_path)

        result = run_command("--estimate", "--prompt=prompt")
        assert (result.code, server.requests) == (0, [])
        assert "1 requests, about 9 tokens to read and 4" in result.out
        for flags, named in (
            (("--beam_size=2",), "beam_size"),
            (("--best_of=2",), "best_of"),
            (("--ray=auto",), "ray"),
            (("--prompt=text",), "text"),
            (("--prompt=none",), "none"),
            (("--teacher_url=http://127.0.0.1:9/v1", "--retries=0"), ":9"),
        ):
            commands.assert_one_clear_line(run_command(*flags), named)
            assert not (tmp_path / "out" / "train.en").exists()
