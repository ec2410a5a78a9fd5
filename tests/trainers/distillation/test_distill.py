"""`python -m trainers.distill`, as a user runs it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import sacrebleu

from export.model_directory import ModelDirectory, load_models
from export.translators.translator import Translator
from tests import processes
from tests.export import tiny
from tests.trainers import cipher, commands
from trainers.data import open_corpus
from trainers.distillation.steps import (
    Distillation,
    compare_bleu,
    run_steps,
)

SMALL = ("--batching=length", "--shapes=1", "--attention_steps=0")


@pytest.fixture
def corpus(tmp_path):
    dataset = cipher.write(tmp_path)
    return open_corpus(dataset, cipher.SOURCE, cipher.TARGET)


def test_the_commands_know_the_flags_that_they_are_given(corpus, tmp_path):
    tiny.write(tmp_path / "teacher")
    tokenize = ["--tokenize=char"]
    flags = {"tokenize": tokenize, "synthesize": ["--best_of=2", *tokenize]}
    asked = []

    def run(module, arguments):
        asked.append(module)
        if module not in asked[:-1]:
            result = processes.run(
                {"module": module}, [*arguments, "--only_check_args"], tmp_path
            )
            assert (result.code, result.err) == (0, "")
        if module == "trainers.synthesize":
            (output,) = (a for a in arguments if a.startswith("--output_dir="))
            folder = pathlib.Path(output.partition("=")[2])
            folder.mkdir(parents=True)
            cipher.write_split(folder, "train", ["ba do"], ["a"])
        return 0

    distillation = Distillation(
        folder=tmp_path / "out",
        corpus=corpus,
        teachers=[ModelDirectory(tmp_path / "teacher")] * 2,
        config=tiny.config(num_decoder_layers=1),
        init_layers=True,
        keep_original=True,
        each_alone=True,
        split="test",
        flags={"data": [], "workers": ["--workers=1"], "wmt": SMALL, **flags},
    )
    steps = distillation.steps()
    assert run_steps(steps, distillation.folder, {}, run) == 0
    assert asked == [
        *["trainers.synthesize"] * 3,
        *("trainers.prepare", "trainers.wmt", "trainers.evaluate"),
        "export.translate",
    ]


def test_student_and_teacher_are_compared_on_the_test_split(corpus, tmp_path):
    test = corpus.evaluation_set("test")
    texts = [list(zip(*test.references))[0], ["ba"] * len(test.sources)]
    paths = [tmp_path / "student", tmp_path / "teacher"]
    for path, lines in zip(paths, texts):
        path.write_text("".join(f"{line}\n" for line in lines))
    output = tmp_path / "comparison.json"
    compare_bleu(paths, test, "char", output)
    streams = test.reference_streams()
    scores = [
        sacrebleu.corpus_bleu(list(each), streams, tokenize="char").score
        for each in texts
    ]
    found = json.loads(output.read_text())
    assert [found["student"], found["teacher"]] == pytest.approx(scores)
    assert found["difference"] == pytest.approx(scores[0] - scores[1])


def test_what_is_refused(tmp_path):
    tiny.write(tmp_path / "model")
    run = {
        "dataset": cipher.write(tmp_path, "trained_on"),
        "source_language": cipher.SOURCE,
        "target_language": cipher.TARGET,
    }
    ModelDirectory(tmp_path / "model").write_run(run)
    shutil.copytree(tmp_path / "model", tmp_path / "other")
    with (tmp_path / "other" / "vocabulary.model").open("ab") as file:
        file.write(b"more")
    cipher.write(tmp_path, "no_dev", splits=("train", "test"))
    (tmp_path / "a.train.ptb").write_text("(S (N a))\n")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").touch()
    before = sorted(tmp_path.rglob("*"))
    command = commands.Worker("trainers.distill")
    for flags, named in (
        (["--teacher=none"], "none/config.json"),
        (["--preset=tinny"], "tinny"),
        (["--set=vocabulary_size=9"], "vocabulary_size"),
        (["--dataset=text:none"], "none.train.en"),
        (["--dataset=trees:a"], "trees"),
        (["--teacher=other"], "vocabularies"),
        (["--dataset=text:no_dev", "--wmt_flag=--keep_best"], "--keep_best"),
        (
            ["--dataset=text:no_dev", "--wmt_flag=--sample_minutes=1"],
            "--sample_minutes",
        ),
        (["--wmt_flag=--train_steps=9"], "--train_steps"),
        (["--output_dir=used"], "mine"),
    ):
        result = command.run(
            *("--teacher=model", "--output_dir=out", *flags), folder=tmp_path
        )
        assert result.code == 2
        assert "Traceback" not in result.err
        assert named in result.err.splitlines()[-1]
        assert sorted(tmp_path.rglob("*")) == before
    command.close()


def _start(folder, *flags):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "trainers.distill", "--output_dir=out"),
            *("--teacher=a", "--teacher=b", "--workers=1"),
            *(f"--wmt_flag={flag}" for flag in SMALL),
            *("--wmt_flag=--checkpoint_steps=50", *flags),
        ],
        cwd=folder,
        env=commands.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.slow
def test_after_a_kill_and_an_interruption_it_resumes(trained, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(trained.path, tmp_path / name)
    wait_for = {
        signal.SIGKILL: "out/translations/2/manifest.json",
        signal.SIGTERM: "out/student/checkpoints/step-*",
    }
    for number, pattern in wait_for.items():
        process = _start(tmp_path, "--train_steps=400")
        while process.poll() is None and not list(tmp_path.glob(pattern)):
            time.sleep(0.05)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=600)
        if number == signal.SIGTERM:
            assert process.returncode == 143, err
            assert "Step 6 was interrupted" in out
    process = _start(tmp_path, "--train_steps=400")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert "step 4 of 8: finished before" in out
    assert re.search(r"Resuming from step \d+\.", out)
    assert re.search(r"student: BLEU [\d.]+; [+-]", out)
    assert "export.saved_model --model_dir=out/student" in out
    student = ModelDirectory(tmp_path / "out" / "student")
    assert student.read_config().num_decoder_layers == 1
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    ensemble = Translator.from_model(
        *load_models([tmp_path / "a", tmp_path / "b"])
    )
    sources = list(corpus.evaluation_set("test").sources)
    answers = [each.text for each in ensemble.translate(sources)]
    written = (tmp_path / "out" / "scores" / "teacher").read_text()
    assert written.splitlines() == answers
