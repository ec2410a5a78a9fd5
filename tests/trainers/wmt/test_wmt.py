"""`python -m trainers.wmt` as a user runs it, to its end and interrupted."""

import fcntl
import json
import math
import os
import re
import shlex
import signal
import tempfile
import time

import numpy as np
import pytest
import sacrebleu

from export.common.processes import folder_lock
from export.loading import load_translator
from export.model_directory import ModelDirectory
from tests import processes
from tests.trainers import cipher, commands, event_files
from tests.trainers.wmt import weights_files
from trainers.augmentation.noise import add_noise, make_noise
from trainers.data import open_corpus
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.training.callbacks import format_metrics
from trainers.training.checkpoints import Checkpoints

STEPS = 120
NUMBER = r"([\d.,]+)"
REPORT = re.compile(
    rf"step (\d+)/120: loss {NUMBER}, perplexity {NUMBER}, accuracy {NUMBER}%"
    r", learning rate ([\d.e+-]+), [\d,]+ tokens/s, [\d:]+ left"
)


@pytest.fixture(scope="module")
def lines(trained):
    assert trained.result.code == 0, trained.result.err
    # No warnings either.
    assert trained.result.err == ""
    return trained.result.out.splitlines()


@pytest.fixture(scope="module")
def raw_data(trained):
    return open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)


def test_it_names_data_and_model(lines, trained, raw_data):
    assert lines[0] == (
        f"Data: {trained.dataset}, en to xx, splits train, dev, test."
    )
    tokenizer = ModelDirectory(trained.path).load_tokenizer()
    for split, count in (("train", 200), ("dev", 12)):
        pairs = raw_data.pairs(split)
        if split == "train":
            source = PreparedCorpus(trained.path / "data").manifest.source
            pairs = add_noise(pairs, make_noise(raw_data, source, count))
        targets = [target for _, target in pairs]
        tokens = sum(map(len, tokenizer.encode(targets)))
        assert f"{split}: {count} pairs, {tokens:,} target tokens." in lines
    assert any(line.startswith("Model: 5,536 parameters") for line in lines)


def test_it_learns_and_tensorboard_gets_what_the_terminal_gets(lines, trained):
    logs = {
        run: {
            tag: dict(values)
            for tag, values in event_files.scalars(
                trained.path / "logs" / run
            ).items()
        }
        for run in ("train", "dev")
    }
    reports = [match for match in map(REPORT.fullmatch, lines) if match]
    assert [int(match[1]) for match in reports] == [1, 10, 40, 80, 120]
    assert float(reports[-1][2]) < float(reports[0][2]) - 1
    for match in reports:
        step = int(match[1])
        values = {tag: by_step[step] for tag, by_step in logs["train"].items()}
        assert f"{values['loss']:.3f}" == match[2]
        assert f"{values['perplexity']:.2f}" == match[3]
        assert f"{values['accuracy']:.1%}" == f"{match[4]}%"
        rate = 16**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert values["learning_rate"] == pytest.approx(rate, rel=1e-5)
        assert values["tokens_per_second"] > 0
    dev = [line for line in lines if re.match(r"step \d+: dev loss", line)]
    expected = []
    for step in (50, 100, 120):
        metrics = {tag: by_step[step] for tag, by_step in logs["dev"].items()}
        expected.append(f"step {step}: dev {format_metrics(metrics)}")
        # Label smoothing holds the loss above the plain cross-entropy.
        assert math.log(metrics["perplexity"]) < metrics["loss"] + 0.1
    assert dev == expected


def test_the_score_is_that_of_the_translations(lines, trained, raw_data):
    translator = load_translator(trained.path)
    sources, references = zip(*raw_data.pairs("test"))
    texts = [each.text for each in translator.translate(list(sources))]
    metric = sacrebleu.BLEU()
    bleu = metric.corpus_score(texts, [references])
    signature = str(metric.get_signature())
    (line,) = [line for line in lines if line.startswith("Test: ")]
    assert line == f"Test: {bleu.format(signature=signature)}"
    (record,) = json.loads((trained.path / "scores.json").read_text())
    command = shlex.join(("python", "-m", "trainers.wmt", *trained.arguments))
    expected = {
        "metric": "BLEU",
        "score": pytest.approx(bleu.score, abs=1e-4),
        "signature": signature,
        "dataset": trained.dataset,
        "split": "test",
        "sentences": 8,
        "beam_size": 2,
        "alpha": 0.6,
        "step": STEPS,
        "weights": "the last step",
        "parameters": 5536,
        "command": command,
    }
    assert {name: record[name] for name in expected} == expected
    low, high = record["confidence_95"]
    assert low <= high
    training = record["training"]
    assert (training["command"], training["steps"]) == (command, STEPS)
    assert training["seconds"] > 0 and training["hardware"]


def test_it_ends_with_samples_and_what_to_do_next(lines, raw_data):
    pairs = dict(raw_data.pairs("test"))
    sources = [line for line in lines if line.startswith("  source:      ")]
    assert len(sources) == 5
    for line in sources:
        reference = pairs[line.removeprefix("  source:      ")]
        assert lines[lines.index(line) + 2] == f"  reference:   {reference}"
    assert lines[lines.index("Next:") + 1 :] == [
        "  tensorboard --logdir runs/tiny-en-xx/logs",
        "  python -m export.saved_model --model_dir=runs/tiny-en-xx "
        "--export_dir=exports/tiny-en-xx",
    ]


def test_the_model_directory_is_as_designed(trained):
    assert {path.name for path in trained.path.iterdir()} == {
        *("config.json", "run.json", "training.json", "scores.json"),
        *("vocabulary.model", "model.weights.h5"),
        *("checkpoints", "logs", "data"),
    }
    checkpoints = Checkpoints(trained.path / "checkpoints", 5)
    assert checkpoints.steps() == [50, 100, STEPS]
    # Nothing half-written, and nothing outside the model directory.
    assert not [p for p in trained.folder.rglob(".*") if p.is_file()]
    others = {p.name for p in trained.folder.iterdir()} - {"runs"}
    assert all(name.startswith("toy.") for name in others)
    saved = weights_files.of_a_checkpoint(checkpoints.path(STEPS))
    for one, other in zip(
        weights_files.in_order(saved.values()),
        weights_files.of_the_model(trained.path),
        strict=True,
    ):
        assert np.array_equal(one, other)
    # Without the optimizer's, which would make the file three times as large.
    names = weights_files.arrays(trained.path)
    assert not [name for name in names if name.startswith("optimizer")]


def test_a_directory_of_another_training_is_not_touched(trained, worker):
    def contents():
        return {
            path: path.read_bytes()
            for path in trained.folder.rglob("*")
            if path.is_file()
        }

    before = contents()
    for flag in ("--seed=7", "--set=vocabulary_size=60"):
        result = worker.wmt(*trained.arguments, flag, folder=trained.folder)
        commands.assert_one_clear_line(result, "--model_dir")
        assert contents() == before
    with folder_lock(trained.path, "training"):
        result = worker.wmt(*trained.arguments, folder=trained.folder)
        commands.assert_one_clear_line(result, "Another training")
    assert contents() == before
    # An older training has no copies, and gets none.
    directory = ModelDirectory(trained.path)
    run = directory.read_run()
    directory.write_run({k: v for k, v in run.items() if k != "copy_rate"})
    result = worker.wmt(*trained.arguments, folder=trained.folder)
    commands.assert_one_clear_line(result, "copy_rate=0.05, not 0.0")
    directory.write_run(run)
    assert contents() == before


# The smallest a pipe can be on Linux. With a report of some 100 letters each
# step, training cannot get 60 steps ahead of the test that reads them.
PIPE_BYTES = 4096


def _stop(arguments, folder, number, mark=r"step \d+/"):
    """Runs the command and sends a signal after the first such line."""
    reading, writing = _small_pipe()
    with tempfile.TemporaryFile("w+") as err, reading:
        with writing:
            process = processes.start(
                commands.WMT, arguments, folder, stdout=writing, stderr=err
            )
        out = ""
        for line in reading:
            out += line
            if re.match(mark, line):
                process.send_signal(number)
                break
        out += reading.read()
        code = process.wait(300)
        err.seek(0)
        return commands.Result(code, out, err.read())


def _small_pipe():
    ends = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return [os.fdopen(end, mode) for end, mode in zip(ends, "rw")]


def _kill(arguments, folder):
    """Kills while a checkpoint after the first one is written."""
    process = processes.start(commands.WMT, arguments, folder)
    while process.poll() is None:
        # In this order: a first checkpoint that ends in between is no second.
        if _steps(folder) and any(
            (folder / "m" / "checkpoints").glob(".*.npz")
        ):
            break
        # Far less than a write takes, and the training needs the processor.
        time.sleep(0.0005)
    process.kill()
    process.wait()


def _steps(folder):
    return Checkpoints(folder / "m" / "checkpoints", 5).steps()


def _assert_same_bits(path, other):
    """Of the weights of two model directories."""
    one, two = weights_files.arrays(path), weights_files.arrays(other)
    assert one.keys() == two.keys()
    for name in one:
        assert one[name].tobytes() == two[name].tobytes(), name


@pytest.fixture(scope="module")
def interrupted(trained, tmp_path_factory):
    """Stops a training five times over; returns (folder, step, results).

    Ctrl-C while the vocabulary is made; SIGKILL while a checkpoint is written,
    the latest one of `step`; Ctrl-C and SIGTERM in training; then its end.
    """
    folder = tmp_path_factory.mktemp("interrupted")
    arguments = (
        *trained.arguments,
        *("--report_steps=1", "--noscore", "--model_dir=m"),
    )
    vocabulary = "Training a vocabulary"
    results = [_stop(arguments, folder, signal.SIGINT, vocabulary)]
    assert not [path for path in folder.rglob(".*") if path.is_file()]
    _kill((*arguments, "--checkpoint_steps=2"), folder)
    step = _steps(folder)[-1]
    results += [
        _stop(arguments, folder, signal.SIGINT),
        _stop(arguments, folder, signal.SIGTERM),
        commands.wmt(*arguments, folder=folder),
    ]
    return folder, step, results


def test_each_run_saves_and_the_next_one_resumes(interrupted):
    folder, step, (prepared, *results) = interrupted
    assert prepared.code == 130
    assert [result.code for result in results] == [130, 143, 0]
    reported = [
        [int(n) for n in re.findall(r"^step (\d+)/", result.out, re.M)]
        for result in results
    ]
    assert 0 < step < 50
    assert sum(reported, []) == list(range(step + 1, STEPS + 1))
    ends = [step, *(steps[-1] for steps in reported)]
    for begin, end, result in zip(ends, ends[1:], results):
        assert f"Resuming from step {begin}." in result.out
        saved = f"Saved at step {end}; the same command resumes.\n"
        assert result.out.endswith(saved) == (end < STEPS)
        assert "Traceback" not in prepared.err + result.err
    log = json.loads((folder / "m" / "training.json").read_text())
    assert [run["last_step"] for run in log["runs"][1:]] == ends[1:]


def test_the_result_is_that_of_an_uninterrupted_training(interrupted, trained):
    folder = interrupted[0]
    assert _steps(folder)[-3:] == [50, 100, STEPS]
    names = [path.name for path in (folder / "m" / "checkpoints").iterdir()]
    assert all(name.startswith("step-") for name in names)
    assert not [path for path in folder.rglob(".*") if path.is_file()]
    _assert_same_bits(folder / "m", trained.path)


def test_the_same_command_again_trains_no_further(interrupted, trained, worker):
    folder = interrupted[0]
    arguments = (*trained.arguments, "--model_dir=m", "--noscore")
    result = worker.wmt(*arguments, folder=folder)
    assert result.code == 0, result.err
    assert "Resuming from step 120." in result.out
    assert "step 121" not in result.out
    _assert_same_bits(folder / "m", trained.path)
