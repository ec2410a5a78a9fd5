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

from export.model_directory import ModelDirectory
from export.translators.translator import Translator
from tests import processes
from tests.export import tiny
from tests.trainers import cipher, commands
from trainers.data import open_corpus
from trainers.distillation.comparison import compare
from trainers.distillation.journal import Journal
from trainers.distillation.recipe import Recipe
from trainers.distillation.steps import go_through
from trainers.distillation.student import student_config

SMALL = ("--batching=length", "--shapes=1", "--attention_steps=0")


def _recipe(folder, teachers, corpus, config, **more):
    return Recipe(
        folder=folder,
        corpus=corpus,
        teachers=[ModelDirectory(path) for path in teachers],
        config=config,
        keep_original=True,
        each_alone=True,
        split="test",
        data=[],
        workers=["--workers=1"],
        wmt=list(SMALL),
        **more,
    )


@pytest.fixture
def corpus(tmp_path):
    dataset = cipher.write(tmp_path)
    return open_corpus(dataset, cipher.SOURCE, cipher.TARGET)


def test_the_commands_know_the_flags_that_they_are_given(corpus, tmp_path):
    tiny.write(tmp_path / "teacher")
    recipe = _recipe(
        tmp_path / "out",
        [tmp_path / "teacher"] * 2,
        corpus,
        tiny.config(num_decoder_layers=1),
        init_layers=True,
        tokenize=["--tokenize=char"],
        synthesize=["--best_of=2", "--tokenize=char"],
    )
    asked = []

    def run(module, arguments):
        asked.append(module.removeprefix("trainers."))
        result = processes.run(
            {"module": module}, [*arguments, "--only_check_args"], tmp_path
        )
        if module == "trainers.synthesize":
            (output,) = (a for a in arguments if a.startswith("--output_dir="))
            _answer(pathlib.Path(output.partition("=")[2]))
        assert not result.err
        return result.code

    assert go_through(recipe.steps(run), Journal(recipe.folder, {})) == 0
    assert asked == [*["synthesize"] * 3, "prepare", "wmt", "evaluate"]
    _, teacher = recipe.translations
    assert len(teacher.read_text().splitlines()) == 8


def _answer(folder):
    folder.mkdir(parents=True)
    cipher.write_split(folder, "train", ["ba do"], ["a"])


def test_what_both_say_of_the_test_split_is_compared(corpus, tmp_path):
    whole = corpus.evaluation_set("test")
    said = [list(zip(*whole.references))[0], ["ba"] * len(whole.sources)]
    paths = [tmp_path / "student", tmp_path / "teacher"]
    for path, texts in zip(paths, said):
        path.write_text("".join(f"{text}\n" for text in texts))
    output = tmp_path / "comparison.json"
    lines = compare(paths, whole, "char", output)
    scores = [
        sacrebleu.corpus_bleu(
            list(texts), whole.reference_streams(), tokenize="char"
        ).score
        for texts in said
    ]
    found = json.loads(output.read_text())
    assert [found["student"], found["teacher"]] == pytest.approx(scores)
    assert found["difference"] == pytest.approx(scores[0] - scores[1])
    assert lines[0] == f"teacher: BLEU {scores[1]:.2f}"
    assert lines[1].startswith("student: BLEU 100.00; +")


@pytest.mark.slow
def test_a_student_has_layers_and_vocabulary_of_its_teacher(trained, tmp_path):
    """In processes whose imports are done: the command would do them anew."""
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    teacher = ModelDirectory(trained.path)
    config = student_config(teacher.read_config(), None, ["train_steps=3"])
    recipe = _recipe(
        tmp_path / "out",
        [trained.path],
        corpus,
        config,
        init_layers=True,
        tokenize=[],
        synthesize=["--best_of=2"],
    )
    asked = []

    def run(module, arguments):
        asked.append(module)
        result = processes.run({"module": module}, arguments, tmp_path)
        assert result.code == 0, result.err
        if module == "trainers.wmt":
            assert f"Layers of {trained.path} that" in result.out
        return result.code

    for _ in range(2):
        journal = Journal(recipe.folder, {})
        assert go_through(recipe.steps(run), journal) == 0
    assert len(asked) == 4
    student = ModelDirectory(recipe.student)
    assert student.read_config() == config
    assert student.read_vocabulary() == teacher.read_vocabulary()
    (score,) = student.read_scores()
    assert (score["dataset"], score["split"]) == (trained.dataset, "test")
    whole = corpus.evaluation_set("test")
    translator = Translator.from_directory(trained.path)
    found = translator.translate(list(whole.sources))
    said = "".join(f"{each.text}\n" for each in found)
    assert recipe.translations[1].read_text() == said


@pytest.fixture(scope="module")
def command():
    running = commands.Worker("trainers.distill")
    yield running
    running.close()


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A model that says it was trained on the cipher."""
    folder = tmp_path_factory.mktemp("teacher")
    tiny.write(folder / "model")
    run = {
        "dataset": cipher.write(folder),
        "source_language": cipher.SOURCE,
        "target_language": cipher.TARGET,
    }
    ModelDirectory(folder / "model").write_run(run)
    return folder / "model"


def _without_dev(folder):
    cipher.write(folder, splits=("train", "test"))


def _other_vocabulary(folder):
    tiny.write(folder / "other")
    with (folder / "other" / "vocabulary.model").open("ab") as file:
        file.write(b"more")


def _other_files(folder):
    (folder / "out").mkdir()
    (folder / "out" / "mine").touch()


@pytest.mark.parametrize(
    "prepare, flags, message",
    [
        (None, ["--teacher=none"], "The model none cannot be used: none/con"),
        (None, ["--preset=tinny"], "tinny"),
        (None, ["--set=vocabulary_size=9"], "is not the teacher's 200"),
        (None, ["--dataset=text:none"], "none of none.train.en"),
        (None, ["--dataset=trees:a"], "holds trees, but text was expected"),
        (_other_vocabulary, ["--teacher=other"], "have different vocabularies"),
        (
            _without_dev,
            ["--dataset=text:toy", "--wmt_flag=--keep_best"],
            "text:toy has no dev split for --keep_best",
        ),
        (
            _other_files,
            [],
            "out holds other files, such as mine",
        ),
    ],
)
def test_what_is_refused(command, teacher, tmp_path, prepare, flags, message):
    (tmp_path / "a.train.ptb").write_text("(S (N a))\n")
    if prepare:
        prepare(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = command.run(
        f"--teacher={teacher}", "--output_dir=out", *flags, folder=tmp_path
    )
    out, *others = reversed(result.err.splitlines())
    assert not [line for line in others if "Error" in line]
    assert result.code == 2
    assert re.search(message, out), out
    assert sorted(tmp_path.rglob("*")) == before


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
def test_a_killed_and_an_interrupted_one_go_on(trained, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(trained.path, tmp_path / name)
    wait_for = {
        signal.SIGKILL: "out/taught/2/manifest.json",
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
            assert "Interrupted in step 6; the same command goes on." in out
    process = _start(tmp_path, "--train_steps=400")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert "step 4 of 8: done before" in out
    assert re.search(r"Resuming from step \d+\.", out)
    assert re.search(r"student: BLEU [\d.]+; [+-]", out)
    assert "export.saved_model --model_dir=out/student" in out

    # Another teacher, or other flags, are refused.
    process = _start(tmp_path, "--best_of=2")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "out was begun with best_of 1, not 2; put back" in err
    with (tmp_path / "a" / "model.weights.h5").open("ab") as file:
        file.write(b"more")
    process = _start(tmp_path, "--train_steps=400")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "out was begun with teachers of SHA-256" in err
