"""`python -m trainers.synthesize`, as a user runs it."""

import functools
import gzip
import json
import signal

import pytest
import sacrebleu

import keras_transformer as kt
from export.translators.load import load_models
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import tiny
from tests.trainers import commands
from tests.trainers.synthesis.clusters import until
from tests.trainers.synthesis.jobs import made_up_model, pairs_in
from tests.trainers.synthesis.runs import (
    assert_broken_is_told,
    broken_copy,
    contents,
    finish,
    shards_in,
    start,
)

LANGUAGES = ("--source_language=aa", "--target_language=bb")


@pytest.fixture(scope="module")
def command():
    running = commands.Worker("trainers.synthesize")
    yield running
    running.close()


@pytest.fixture(scope="module")
def reverse_path(tmp_path_factory):
    """A folder that says of itself that it translates from bb into aa."""
    path = tmp_path_factory.mktemp("reverse")
    made_up_model(path)
    languages = {"source_language": "bb", "target_language": "aa"}
    (path / "run.json").write_text(json.dumps(languages))
    return path


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "text.gz"
    sentences = [*made_up_text.sentences(12), "", made_up_text.sentences(1)[0]]
    path.write_bytes(gzip.compress("\n".join(sentences).encode()))
    return path


def test_text_becomes_a_corpus(
    command, model_path, translator, lines, tmp_path
):
    result = command.run(
        *(f"--text={lines}", f"--model={model_path}", *LANGUAGES),
        *("--output_dir=out", "--shard_lines=5", "--workers=1"),
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    counts = "14 read, 1 blank, 1 duplicate, 12 written"
    assert f"out: {counts}." in result.out
    assert "trainers.wmt --dataset=text:out/ --source_language=aa" in result.out
    sentences = made_up_text.sentences(12)
    answers = [each.text for each in translator.translate(sentences)]
    assert pairs_in(tmp_path / "out") == [*zip(sentences, answers)]


@pytest.mark.parametrize(
    "flags, message",
    [
        ((), "either --text=FILE or --dataset"),
        (("--text=text.gz", "--dataset=text:a"), "either --text=FILE or"),
        (("--text=text.gz",), "needs --source_language and --target_language"),
        (("--text=none", *LANGUAGES), "Cannot read none: No such file"),
        (
            ("--text=text.gz", "--source_language=aa", "--target_language=aa"),
            "are both 'aa'",
        ),
        (
            ("--text=text.gz", "--source_language=../a", "--target_language=b"),
            "'../a' is not a language code",
        ),
        (("--text=text.gz", *LANGUAGES, "--best_of=2"), "compares with ref"),
        (("--text=text.gz", *LANGUAGES, "--top_k=2"), "of --decoding=sample"),
        (
            ("--text=text.gz", *LANGUAGES, "--decoding=sample", "--alpha=1"),
            "--alpha is of --decoding=beam",
        ),
        (("--text=text.gz", *LANGUAGES, "--metric=chrf"), "of --best_of above"),
        (("--text=text.gz", *LANGUAGES, "--tag= a"), "--tag=' a' must be"),
        (
            ("--text=text.gz", *LANGUAGES, "--ray=auto", "--workers=2"),
            "--workers are of this machine",
        ),
        (
            ("--text=text.gz", *LANGUAGES, "--model=missing"),
            "The model missing cannot be used: missing/config.json",
        ),
        (("--dataset=trees:trees",), "holds trees"),
    ],
)
def test_what_is_refused(command, model_path, lines, tmp_path, flags, message):
    (tmp_path / "trees.train.ptb").write_text("(S (N a))\n")
    result = command.run(
        *(f"--model={model_path}", "--output_dir=out", *flags),
        folder=tmp_path,
    )
    commands.assert_one_clear_line(result, message)
    assert not (tmp_path / "out").exists()


def has_shards(output, count):
    return shards_in(output) >= count


@pytest.mark.slow
def test_workers_change_nothing_nor_does_a_kill(text, model_path, tmp_path):
    alone = tmp_path / "alone"
    finish(start(text, model_path, alone, "--workers=1"))
    output = tmp_path / "out"
    for stop in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        enough = shards_in(output) + 4
        process = start(text, model_path, output, "--workers=2")
        until(functools.partial(has_shards, output, enough), "some shards")
        process.send_signal(stop)
        process.communicate(timeout=60)
        assert process.returncode != 0
    assert 8 < shards_in(output) < 120
    finish(start(text, model_path, output, "--workers=2"))
    assert contents(output) == contents(alone)


def test_a_model_of_the_other_direction_is_refused(
    command, reverse_path, lines, tmp_path
):
    result = command.run(
        *(f"--model={reverse_path}", "--output_dir=out", *LANGUAGES),
        f"--text={lines}",
        folder=tmp_path,
    )
    commands.assert_one_clear_line(result, "translates from bb into aa, and aa")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_only_a_worker_sees_is_told(text, model_path, tmp_path):
    broken = broken_copy(model_path, tmp_path)
    assert_broken_is_told(start(text, broken, tmp_path / "out"))
    assert not [*(tmp_path / "out").iterdir()]


@pytest.mark.slow
def test_several_models_go_back_with_the_best_of_draws(
    model_path, tmp_path, command
):
    """An ensemble, a corpus, backward, best of n: all of it at once."""
    other = tmp_path / "other"
    tiny.write(other, seed=6, num_layers=1)
    sentences = made_up_text.sentences(40)
    (tmp_path / "c.train.aa").write_text("\n".join(sentences[::-1]))
    (tmp_path / "c.train.bb").write_text("\n".join(sentences))
    result = command.run(
        *(f"--model={model_path}", f"--model={other}", "--dataset=text:c"),
        *("--way=backward", "--decoding=sample", "--best_of=3", *LANGUAGES),
        *("--metric=chrf", "--tag=<bt>", "--output_dir=out", "--top_k=20"),
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    ensemble = Translator(*load_models([model_path, other]))
    drawn = ensemble.sample(
        sentences, range(1, 41), kt.SamplingRules(3, 1.0, 20)
    )
    expected = {}
    for line, reference, found in zip(sentences, sentences[::-1], drawn):
        texts = [each.text for each in found]
        scores = [
            sacrebleu.sentence_chrf(each, [reference]).score for each in texts
        ]
        best = texts[scores.index(max(scores))]
        expected[f"<bt> {best}", line] = None
    assert pairs_in(tmp_path / "out") == [*expected]
    said = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [model["path"] for model in said["models"]] == [
        str(model_path),
        str(other),
    ]
