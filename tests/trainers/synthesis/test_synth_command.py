"""`python -m trainers.synthesize`, as a user runs it."""

import gzip
import json
import shutil
import signal

import pytest

from tests import made_up_text
from tests.trainers import commands, ray_workers
from tests.trainers.ray_workers import (
    finish,
    kill_busy_ray_worker,
    wait_until,
)
from tests.trainers.synthesis.jobs import made_up_model, pairs_in

LANGUAGES = ("--source_language=aa", "--target_language=bb")
TEXT = ("--text=text", *LANGUAGES)


@pytest.fixture(scope="module")
def command():
    worker = commands.Worker("trainers.synthesize")
    yield worker
    worker.close()


def test_the_command_makes_a_corpus(command, model_path, translator, tmp_path):
    texts = made_up_text.sentences(12)
    packed = gzip.compress("\n".join([*texts, "", texts[0]]).encode())
    (tmp_path / "text.gz").write_bytes(packed)
    result = command.run(
        *(f"--model={model_path}", "--text=text.gz", "--output_dir=out"),
        *(*LANGUAGES, "--shard_lines=5", "--workers=1"),
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    assert "out: 14 read, 1 blank, 1 duplicate, 12 written." in result.out
    answers = [each.text for each in translator.translate(texts)]
    assert pairs_in(tmp_path / "out") == [*zip(texts, answers)]


def test_what_is_refused(command, model_path, tmp_path):
    (tmp_path / "text").write_text("ba\n")
    (tmp_path / "trees.train.ptb").write_text("(S (N a))\n")
    for name in ("a.train.en", "a.train.de", "a.dev.en", "a.dev.de"):
        (tmp_path / name).write_text("ba\n")
    (tmp_path / "m.toml").write_text(
        '[[corpora]]\ndataset = "text:a"\n'
        'source_language = "en"\ntarget_language = "de"\n'
    )
    made_up_model(tmp_path / "reverse", made_up_text.vocabulary())
    made_up_model(tmp_path / "other", made_up_text.vocabulary(seed=2))
    run = {"source_language": "bb", "target_language": "aa"}
    (tmp_path / "reverse" / "run.json").write_text(json.dumps(run))
    for flags, named in (
        ((), "--text"),
        ((*TEXT, "--dataset=text:a"), "--dataset"),
        (("--text=text",), "--source_language"),
        (("--text=none", *LANGUAGES), "none"),
        ((*TEXT, "--target_language=aa"), "aa"),
        ((*TEXT, "--best_of=2"), "--best_of"),
        ((*TEXT, "--top_k=2"), "--top_k"),
        ((*TEXT, "--decoding=sample", "--alpha=1"), "--alpha"),
        ((*TEXT, "--metric=chrf"), "--metric"),
        ((*TEXT, "--split=dev"), "--split"),
        ((*TEXT, "--tag= a"), "--tag"),
        ((*TEXT, "--ray=auto", "--workers=2"), "--workers"),
        ((*TEXT, "--model=missing"), "missing/config.json"),
        ((*TEXT, "--model=reverse"), "reverse"),
        ((*TEXT, "--model=other"), "vocabulary, and those of .*, other differ"),
        (("--dataset=trees:trees",), "trees"),
        (("--dataset=mixture:m.toml",), "mixture"),
    ):
        result = command.run(
            *(f"--model={model_path}", "--output_dir=out", *flags),
            folder=tmp_path,
        )
        commands.assert_one_clear_line(result, named)
        assert not (tmp_path / "out").exists()


def start(text, model_path, output, *flags):
    return ray_workers.start(
        "trainers.synthesize",
        *(f"--text={text}", f"--model={model_path}"),
        *("--source_language=aa", "--target_language=bb"),
        *("--decoding=sample", "--word_drop=0.1", "--shard_lines=25"),
        *(f"--output_dir={output}", *flags),
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def count_shards(output):
    return len([*output.glob("shards/*.jsonl")])


@pytest.mark.slow
def test_pairs_are_the_same_after_kills_with_any_workers(
    text, model_path, tmp_path
):
    alone = tmp_path / "alone"
    finish(start(text, model_path, alone, "--workers=1"))
    output = tmp_path / "out"
    for stop in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        enough = count_shards(output) + 4
        process = start(text, model_path, output, "--workers=2")
        wait_until(lambda: count_shards(output) >= enough)  # noqa: B023
        process.send_signal(stop)
        process.communicate(timeout=60)
        assert process.returncode != 0
    assert 8 < count_shards(output) < 120
    finish(start(text, model_path, output, "--workers=2"))
    assert contents(output) == contents(alone)


@pytest.mark.slow
def test_ray_nodes_and_workers_may_die(ray_cluster, text, model_path, tmp_path):
    alone, output = tmp_path / "alone", tmp_path / "out"
    at = f"--ray={ray_cluster.address}"
    process = start(text, model_path, output, at)
    wait_until(lambda: count_shards(output) > 1)
    wait_until(lambda: kill_busy_ray_worker("_call"))
    ray_cluster.remove_node(ray_cluster.added[0], allow_graceful=False)
    assert 1 < count_shards(output) < 100
    finish(process)
    finish(start(text, model_path, alone, "--workers=1"))
    assert contents(output) == contents(alone)
    # Errors of Ray's workers and of Ray are one line.
    broken = tmp_path / "broken"
    shutil.copytree(model_path, broken)
    (broken / "model.weights.h5").write_bytes(b"no weights")
    for path, flag, message in (
        (broken, "--threads=1", "broken/model.weights.h5"),
        # No machine has two CPUs.
        (model_path, "--threads=2", "2 processors and 0 GPUs"),
    ):
        err = finish(start(text, path, tmp_path / "other", at, flag), code=2)
        (line,) = (line for line in err.splitlines() if "Error" in line)
        assert message in line
