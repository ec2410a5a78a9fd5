"""`python -m trainers.synthesize`, as a user runs it."""

import gzip
import json
import signal

import pytest
import sacrebleu

import keras_transformer as kt
from export.translators.translator import Translator, load_models
from tests import made_up_text
from tests.export import tiny
from tests.trainers import commands
from tests.trainers.synthesis.jobs import made_up_model, pairs_in
from tests.trainers.synthesis.runs import (
    contents,
    count_shards,
    finish,
    start,
    wait_until,
)

LANGUAGES = ("--source_language=aa", "--target_language=bb")
TEXT = ("--text=text.gz", *LANGUAGES)


@pytest.fixture(scope="module")
def command():
    running = commands.Worker("trainers.synthesize")
    yield running
    running.close()


@pytest.fixture
def folder(tmp_path):
    """A folder with a text, trees, and a model of the other direction."""
    sentences = [*made_up_text.sentences(12), "", made_up_text.sentences(1)[0]]
    packed = gzip.compress("\n".join(sentences).encode())
    (tmp_path / "text.gz").write_bytes(packed)
    (tmp_path / "trees.train.ptb").write_text("(S (N a))\n")
    made_up_model(tmp_path / "reverse")
    run = {"source_language": "bb", "target_language": "aa"}
    (tmp_path / "reverse" / "run.json").write_text(json.dumps(run))
    return tmp_path


def test_text_becomes_a_corpus(command, model_path, translator, folder):
    result = command.run(
        *(f"--model={model_path}", *TEXT, "--output_dir=out"),
        *("--shard_lines=5", "--workers=1"),
        folder=folder,
    )
    assert result.code == 0, result.err
    counts = "14 read, 1 blank, 1 duplicate, 12 written"
    assert f"out: {counts}." in result.out
    assert "trainers.wmt --dataset=text:out/ --source_language=aa" in result.out
    sentences = made_up_text.sentences(12)
    answers = [each.text for each in translator.translate(sentences)]
    assert pairs_in(folder / "out") == [*zip(sentences, answers)]


def test_what_is_refused(command, model_path, folder):
    for flags, named in (
        ((), "--text"),
        ((*TEXT, "--dataset=text:a"), "--dataset"),
        (("--text=text.gz",), "--source_language"),
        (("--text=none", *LANGUAGES), "none"),
        ((*TEXT, "--target_language=aa"), "aa"),
        ((*TEXT, "--source_language=../a"), "../a"),
        ((*TEXT, "--best_of=2"), "--best_of"),
        ((*TEXT, "--top_k=2"), "--top_k"),
        ((*TEXT, "--decoding=sample", "--alpha=1"), "--alpha"),
        ((*TEXT, "--metric=chrf"), "--metric"),
        ((*TEXT, "--tag= a"), "--tag"),
        ((*TEXT, "--ray=auto", "--workers=2"), "--workers"),
        ((*TEXT, "--ray_gpus=1"), "--ray_gpus"),
        ((*TEXT, "--model=missing"), "missing/config.json"),
        ((*TEXT, "--model=reverse"), "reverse"),
        (("--dataset=trees:trees",), "trees"),
    ):
        result = command.run(
            *(f"--model={model_path}", "--output_dir=out", *flags),
            folder=folder,
        )
        commands.assert_one_clear_line(result, named)
        assert not (folder / "out").exists()


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
        wait_until(lambda: count_shards(output) >= enough, "some shards")  # noqa: B023
        process.send_signal(stop)
        process.communicate(timeout=60)
        assert process.returncode != 0
    assert 8 < count_shards(output) < 120
    finish(start(text, model_path, output, "--workers=2"))
    assert contents(output) == contents(alone)


@pytest.mark.slow
def test_an_ensemble_backward_with_the_best_of_samples_at_a_url(
    model_path, tmp_path, command
):
    tiny.write(tmp_path / "other", seed=6, num_layers=1)
    sentences = made_up_text.sentences(40)
    (tmp_path / "c.train.aa").write_text("\n".join(sentences[::-1]))
    (tmp_path / "c.train.bb").write_text("\n".join(sentences))
    url = (tmp_path / "out").as_uri()
    result = command.run(
        *(f"--model={model_path}", "--model=other", "--dataset=text:c"),
        *("--way=backward", "--decoding=sample", "--best_of=3", *LANGUAGES),
        *("--metric=chrf", "--tag=<bt>", f"--output_dir={url}", "--top_k=20"),
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    assert f"--dataset=text:{url}/ " in result.out
    ensemble = Translator(*load_models([model_path, tmp_path / "other"]))
    samples = ensemble.sample(
        sentences, range(1, 41), kt.SamplingRules(3, 1.0, 20)
    )
    expected = {}
    for line, reference, found in zip(sentences, sentences[::-1], samples):
        texts = [each.text for each in found]
        scores = [
            sacrebleu.sentence_chrf(each, [reference]).score for each in texts
        ]
        best = texts[scores.index(max(scores))]
        expected[f"<bt> {best}", line] = None
    assert pairs_in(tmp_path / "out") == [*expected]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    paths = [model["path"] for model in manifest["models"]]
    assert paths == [str(model_path), "other"]
