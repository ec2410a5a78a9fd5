"""Options of the command that change how it trains."""

import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from export.translators.translator import Translator
from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints

STEPS = 9
PLAIN = (
    *commands.MINUTE,
    "--dataset=text:toy",
    "--model_dir=m",
    "--set=dropout=0",
    "--set=activation=gelu",
    f"--train_steps={STEPS}",
    "--dev_steps=3",
    "--report_steps=3",
    "--checkpoint_steps=3",
    "--nojit",
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory, worker):
    """(folder, result) of a training without any option."""
    folder = tmp_path_factory.mktemp("plain")
    cipher.write(folder, splits=("train", "dev"))
    return folder, _run(worker, folder)


@pytest.fixture
def folder(plain, tmp_path):
    """A folder with the same data."""
    for path in plain[0].glob("toy.*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def _run(worker, folder, *options, arguments=PLAIN, code=0):
    result = worker.wmt(*arguments, *options, folder=folder)
    assert result.code == code, result.err
    return result


def _without(*words):
    return [each for each in PLAIN if not any(word in each for word in words)]


def _weights(folder, name="m"):
    return weights_files.arrays(folder / name)


def _largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


def _checkpoints(folder, name="m"):
    return Checkpoints(folder / name / "checkpoints", 5)


def _losses(result):
    return [
        float(loss)
        for loss in re.findall(
            r"^step \S+ (?:dev )?loss ([\d.]+)", result.out, re.M
        )
    ]


def test_micro_batches_make_the_same_model(plain, worker, folder):
    result = _run(worker, folder, "--shapes=1", "--accumulate=3")
    assert _largest_difference(_weights(folder), _weights(plain[0])) <= 1e-6
    assert _losses(result) == pytest.approx(_losses(plain[1]), abs=2e-3)


def test_packed_rows_are_the_default_and_learn(plain, worker, folder):
    arguments = _without("--batching", "--shapes")
    result = _run(worker, folder, "--row_tokens=24", arguments=arguments)
    losses = _losses(result)
    assert losses[-1] < losses[0]
    assert _largest_difference(_weights(folder), _weights(plain[0])) > 1e-4


def test_prepared_data_are_used_as_they_are(plain, worker, tmp_path):
    arguments = _without("dataset", "_language")
    data = plain[0] / "m" / "data"
    arguments.append(f"--prepared_dir={data}")
    before = {path: path.stat().st_mtime_ns for path in data.iterdir()}
    result = _run(worker, tmp_path, arguments=arguments)
    assert "Tokenising" not in result.out
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) == 0
    assert {p: p.stat().st_mtime_ns for p in data.iterdir()} == before
    other = (f"--source_language={cipher.TARGET}", "--model_dir=other")
    result = _run(worker, tmp_path, *other, arguments=arguments, code=2)
    commands.assert_one_clear_line(result, "source_language")
    assert not (tmp_path / "other").exists()


def test_a_moving_average_of_the_weights(plain, worker, folder):
    """The model is the average; checkpoints hold the last weights."""
    ema = ("--ema=0.5", "--average_checkpoints=0")
    _run(worker, folder, *ema)
    path = _checkpoints(folder).path(STEPS)
    last = weights_files.in_order(weights_files.of_a_checkpoint(path).values())
    plain_last = weights_files.of_the_model(plain[0] / "m")
    assert max(np.abs(a - b).max() for a, b in zip(last, plain_last)) == 0
    average = weights_files.of_the_model(folder / "m")
    assert max(np.abs(a - b).max() for a, b in zip(last, average)) > 1e-4
    # The same after a resume, and if there is nothing left to train.
    for steps in (6, STEPS, STEPS):
        _run(worker, folder, *ema, "--model_dir=r", f"--train_steps={steps}")
    assert _largest_difference(_weights(folder), _weights(folder, "r")) == 0


def test_the_best_step_becomes_the_model(plain, worker, folder):
    """With a rate so high that the first evaluation is the best."""
    wild = (
        *("--set=learning_rate_scale=300", "--set=warmup_steps=9"),
        *("--ema=0.5", "--average_checkpoints=0"),
    )
    result = _run(worker, folder, *wild, "--keep_best")
    _run(worker, folder, *wild, "--model_dir=short", "--train_steps=3")
    assert _largest_difference(_weights(folder), _weights(folder, "short")) == 0
    (first, *_) = re.findall("^step 3.*: dev loss ([0-9.]+)", result.out, re.M)
    (best,) = re.findall(
        "Final .* best step by dev loss, ([0-9.]+)", result.out
    )
    assert float(best) == pytest.approx(float(first), abs=1e-3)
    log = json.loads((folder / "m" / "training.json").read_text())
    assert log["weights"]["step"] == 3


def test_the_last_checkpoints_are_averaged(worker, tmp_path):
    """Of a corpus that has only a train split."""
    cipher.write(tmp_path, splits=("train",))
    options = ("--checkpoint_steps=2", "--keep_checkpoints=2")
    options += ("--average_checkpoints=3",)
    result = _run(worker, tmp_path, *options)
    assert "dev loss" not in result.out
    assert "no test split, so there is no BLEU" in result.out
    assert not (tmp_path / "m" / "scores.json").exists()
    Translator.from_directory(tmp_path / "m")
    # As many are kept as are averaged, though fewer were asked for.
    assert _checkpoints(tmp_path).steps() == [6, 8, 9]
    arrays = [
        weights_files.of_a_checkpoint(_checkpoints(tmp_path).path(step))
        for step in (6, 8, 9)
    ]
    means = [
        np.mean([np.float64(each[name]) for each in arrays], axis=0)
        for name in arrays[0]
    ]
    written = weights_files.of_the_model(tmp_path / "m")
    for mean, actual in zip(
        weights_files.in_order(means), written, strict=True
    ):
        np.testing.assert_allclose(actual, mean, rtol=1e-6, atol=1e-9)


def test_minutes_end_a_training_that_resumes_later(plain, worker, folder):
    # Two updates take longer than 0.6 ms.
    options = ("--train_steps=1000000", "--train_minutes=0.00001")
    _run(worker, folder, *options)
    result = _run(worker, folder, *options)
    assert "Resuming from step 1." in result.out
    assert _checkpoints(folder).steps() == [1, 2]


@pytest.mark.parametrize(("jit", "steps"), [("--jit", 9), ("--nojit", 1)])
def test_a_training_that_diverges_leaves_no_weights(
    plain, worker, folder, jit, steps
):
    options = (jit, f"--train_steps={steps}")
    result = _run(
        worker, folder, "--set=learning_rate_scale=1e30", *options, code=2
    )
    assert "Traceback" not in result.err
    assert "training diverged" in result.err.splitlines()[-1]
    assert not list((folder / "m").rglob("*.weights.h5"))
    assert not list((folder / "m").rglob("*.npz"))


def test_initial_weights_of_a_model(plain, worker, folder):
    model = plain[0] / "m"
    result = _run(worker, folder, f"--init_from={model}", "--train_steps=3")
    name = "vocabulary.model"
    assert (folder / "m" / name).read_bytes() == (model / name).read_bytes()
    assert _losses(result)[0] < _losses(plain[1])[0] - 0.1
    options = (f"--init_from={model}", "--set=d_ff=24", "--model_dir=n")
    result = _run(worker, folder, *options, code=2)
    commands.assert_one_clear_line(result, "--set=d_ff=16")
    teacher = (f"--init_layers_from={model}", "--model_dir=student")
    deeper = ("--set=num_layers=3", "--set=num_decoder_layers=1")
    result = _run(worker, folder, *teacher, *deeper, "--train_steps=1")
    assert _losses(result)[0] < _losses(plain[1])[0] - 0.1


def test_dev_bleu_is_reported_and_ends_the_training(plain, worker, folder):
    """A model that learns nothing translates no better the second time."""
    result = _run(
        worker,
        folder,
        "--set=learning_rate_scale=1e-30",
        "--dev_bleu_sentences=5",
        "--patience=2",
        "--train_steps=1000",
    )
    checkpoints = _checkpoints(folder)
    assert checkpoints.steps() == [3, 6, 9]
    # Each has the evaluation of its own step, which a resume needs.
    for step in checkpoints.steps():
        with np.load(checkpoints.path(step)) as file:
            history = json.loads(str(file["history"]))
        steps = [evaluation["step"] for evaluation in history]
        assert steps == list(range(3, step + 1, 3))
    # With BLEU the best is kept, also without --keep_best.
    assert checkpoints.path(3, "best").exists()
    scores = re.findall("^step .*: dev .*BLEU ([0-9.]+)$", result.out, re.M)
    assert len(scores) == 3 and len(set(scores)) == 1


@pytest.mark.slow
def test_dev_and_test_are_scored_with_the_given_tokenizer(worker, tmp_path):
    cipher.write(tmp_path)
    dev = "--dev_bleu_sentences=5"
    _run(worker, tmp_path, dev, "--train_steps=3", "--tokenize=char")
    # And in a resumed training.
    _run(worker, tmp_path, dev, "--train_steps=6")
    records = json.loads((tmp_path / "m" / "scores.json").read_text())
    assert [record["step"] for record in records] == [3, 6]
    assert all("|tok:char|" in each["signature"] for each in records)
    result = _run(worker, tmp_path, dev, "--tokenize=zh", code=2)
    commands.assert_one_clear_line(result, "tokenize=char, not zh")


def test_bfloat16_rounds_and_learns_the_same(plain, worker, folder):
    result = _run(worker, folder, "--precision=mixed_bfloat16")
    difference = _largest_difference(_weights(folder), _weights(plain[0]))
    # Between the rounding of float32 and that of bfloat16, a few updates on.
    assert 1e-5 < difference < 0.05
    assert _losses(result) == pytest.approx(_losses(plain[1]), rel=0.02)


def test_jit_compiles_with_xla(plain, folder):
    environment = processes.user_environment()
    environment["XLA_FLAGS"] = f"--xla_dump_to={folder / 'xla'}"
    result = processes.run(commands.WMT, [*PLAIN, "--jit"], folder, environment)
    assert result.code == 0, result.err
    assert list((folder / "xla").glob("*loss_and_grad*"))
    assert _largest_difference(_weights(folder), _weights(plain[0])) <= 1e-5


_PRINT_DETERMINISM = """
import atexit, runpy
from tensorflow.python.framework import config
atexit.register(
    lambda: print("deterministic:", config.is_op_determinism_enabled())
)
runpy.run_module("trainers.wmt", run_name="__main__", alter_sys=True)
"""


def test_deterministic_operations_are_enabled(tmp_path):
    """On CPUs that changes no bit; on GPUs it does."""
    arguments = ["--deterministic", "--dataset=text:none"]
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_DETERMINISM, *arguments],
        cwd=tmp_path,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "deterministic: True" in done.stdout.splitlines()


@pytest.mark.slow
def test_all_options_of_the_readme_together(tmp_path):
    """Two devices, XLA, bfloat16, packed rows and dropout: as without."""
    cipher.write(tmp_path)
    many = zip(*cipher.sentences(2000))
    cipher.write_split(tmp_path, "toy.train", *many)
    arguments = [
        *_without("--batching", "--shapes", "dropout"),
        *("--set=dropout=0.1", "--row_tokens=64", "--train_steps=200"),
        *("--dev_steps=50", "--report_steps=50", "--set=learning_rate_scale=3"),
        "--batch_tokens=512",
    ]
    all_options = [
        *("--strategy=mirrored", "--logical_cpus=2", "--jit"),
        "--precision=mixed_bfloat16",
    ]
    losses = {}
    for name, options in {"plain": [], "all": all_options}.items():
        result = commands.wmt(
            *arguments, *options, f"--model_dir={name}", folder=tmp_path
        )
        assert result.code == 0, result.err
        losses[name] = _losses(result)
        (record,) = json.loads((tmp_path / name / "scores.json").read_text())
        assert record["step"] == 200
        assert all(map(math.isfinite, losses[name]))
    assert "on 2 devices" in result.out
    assert losses["all"][-1] < 0.8 * losses["all"][0]
    # Dropout differs each time, which shows while much is learnt.
    assert losses["all"] == pytest.approx(losses["plain"], rel=0.15)
    options = (*all_options, "--train_steps=210", "--model_dir=all")
    result = commands.wmt(*arguments, *options, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Resuming from step 200." in result.out
