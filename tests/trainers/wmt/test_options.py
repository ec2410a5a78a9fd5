"""Options of the command that change how it trains."""

import json
import math
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints

STEPS = 9
PLAIN = (
    *commands.MINUTE,
    "--dataset=text:toy",
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


def _run(worker, folder, *options, code=0):
    result = worker.wmt(*PLAIN, "--model_dir=m", *options, folder=folder)
    assert result.code == code, result.err
    return result


def _data(plain, folder):
    for path in plain[0].glob("toy.*"):
        shutil.copy(path, folder)


def _weights(folder, name="m"):
    return weights_files.arrays(folder / name)


def _largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


def _losses(result):
    return [
        float(loss)
        for loss in re.findall(
            r"^step \S+ (?:dev )?loss ([\d.]+)", result.out, re.M
        )
    ]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--accumulate=4",), marks=pytest.mark.slow),
        ("--shapes=1", "--accumulate=3"),
    ],
)
def test_parts_of_a_batch_make_the_same_model(plain, worker, tmp_path, options):
    _data(plain, tmp_path)
    result = _run(worker, tmp_path, *options)
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) <= 1e-6
    assert _losses(result) == pytest.approx(_losses(plain[1]), abs=2e-3)


def test_packed_rows_train_as_well(plain, worker, tmp_path):
    """As they do without a word about batches."""
    _data(plain, tmp_path)
    by_length = ("--batching=length", "--shapes=1")
    arguments = [each for each in PLAIN if each not in by_length]
    result = worker.wmt(
        *arguments, "--model_dir=m", "--row_tokens=24", folder=tmp_path
    )
    assert result.code == 0, result.err
    losses = _losses(result)
    assert losses[-1] < losses[0]
    # The other batches of a plan that was not asked for.
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) > 1e-4


def test_prepared_data_of_another_place_are_used_as_they_are(
    plain, worker, tmp_path
):
    arguments = [each for each in PLAIN if "dataset" not in each]
    arguments = [each for each in arguments if "_language" not in each]
    data = plain[0] / "m" / "data"
    before = {path: path.stat().st_mtime_ns for path in data.iterdir()}
    result = worker.wmt(
        *arguments, "--model_dir=m", f"--prepared_dir={data}", folder=tmp_path
    )
    assert result.code == 0, result.err
    assert "Tokenising" not in result.out
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) == 0
    assert {p: p.stat().st_mtime_ns for p in data.iterdir()} == before
    other = (f"--source_language={cipher.TARGET}", "--model_dir=other")
    result = worker.wmt(
        *arguments, *other, f"--prepared_dir={data}", folder=tmp_path
    )
    said = f"source_language={cipher.SOURCE}, not {cipher.TARGET}; leave out"
    commands.assert_one_clear_line(result, said)
    assert not (tmp_path / "other").exists()


def test_an_average_of_the_weights_is_what_the_model_is(
    plain, worker, tmp_path
):
    """It lags behind the last weights, which the checkpoint holds."""
    _data(plain, tmp_path)
    _run(worker, tmp_path, "--ema=0.5", "--average_checkpoints=0")
    path = Checkpoints(tmp_path / "m" / "checkpoints", 5).path(STEPS)
    last = weights_files.in_order(weights_files.of_a_checkpoint(path).values())
    plain_last = weights_files.of_the_model(plain[0] / "m")
    assert max(np.abs(a - b).max() for a, b in zip(last, plain_last)) == 0
    average = weights_files.of_the_model(tmp_path / "m")
    assert max(np.abs(a - b).max() for a, b in zip(last, average)) > 1e-4
    # A second run finds nothing to train and writes the same again.
    before = _weights(tmp_path)
    _run(worker, tmp_path, "--ema=0.5", "--average_checkpoints=0")
    assert _largest_difference(before, _weights(tmp_path)) == 0


def test_an_average_is_the_same_after_a_resume_and_at_the_best_step(
    plain, worker, tmp_path
):
    _data(plain, tmp_path)
    ema = ("--ema=0.5", "--average_checkpoints=0")
    # So fast that the first measure of dev is the best one.
    wild = (*ema, "--set=learning_rate_scale=300", "--set=warmup_steps=9")
    _run(worker, tmp_path, *ema, "--model_dir=whole")
    _run(worker, tmp_path, *ema, "--model_dir=parted", "--train_steps=6")
    _run(worker, tmp_path, *ema, "--model_dir=parted")
    whole, parted = (_weights(tmp_path, name) for name in ("whole", "parted"))
    assert _largest_difference(whole, parted) == 0
    result = _run(worker, tmp_path, *wild, "--model_dir=best", "--keep_best")
    _run(worker, tmp_path, *wild, "--model_dir=short", "--train_steps=3")
    best, short = (_weights(tmp_path, name) for name in ("best", "short"))
    assert _largest_difference(best, short) == 0
    # The measure is the average's, as that of the weights to use is.
    (first, *_) = re.findall("^step 3.*: dev loss ([0-9.]+)", result.out, re.M)
    (best,) = re.findall("the best step by dev loss, ([0-9.]+);", result.out)
    assert float(best) == pytest.approx(float(first), abs=1e-3)


@pytest.mark.parametrize("jit", ["--jit", "--nojit"])
def test_a_training_that_diverges_leaves_no_weights(
    plain, worker, tmp_path, jit
):
    """Also where only the last update does."""
    _data(plain, tmp_path)
    for steps in (1, 9):
        result = _run(
            worker,
            tmp_path,
            "--set=learning_rate_scale=1e30",
            jit,
            f"--model_dir={steps}",
            f"--train_steps={steps}",
            code=2,
        )
        assert "Traceback" not in result.err
        assert "training diverged" in result.err.splitlines()[-1]
        assert not list((tmp_path / str(steps)).rglob("*.weights.h5"))
        assert not list((tmp_path / str(steps)).rglob("*.npz"))


def test_fine_tuning_begins_with_the_weights_of_a_model(
    plain, worker, tmp_path
):
    _data(plain, tmp_path)
    model = plain[0] / "m"
    result = _run(worker, tmp_path, f"--init_from={model}", "--train_steps=3")
    vocabulary = "vocabulary.model"
    assert (tmp_path / "m" / vocabulary).read_bytes() == (
        model / vocabulary
    ).read_bytes()
    first = _losses(result)[0]
    assert first < _losses(plain[1])[0] - 0.1
    result = _run(
        worker,
        tmp_path,
        f"--init_from={model}",
        "--set=d_ff=24",
        "--model_dir=other",
        code=2,
    )
    assert "has d_ff=16, not 24; use --set=d_ff=16" in result.err


@pytest.mark.slow
def test_a_student_begins_with_layers_of_a_teacher(plain, worker, tmp_path):
    _data(plain, tmp_path)
    teacher = f"--init_layers_from={plain[0] / 'm'}"
    deeper = "--set=num_layers=3", "--set=num_decoder_layers=1"
    result = _run(worker, tmp_path, teacher, *deeper, "--train_steps=1")
    assert "that the encoder's begin as: 1, 1, 1." in result.out
    assert _losses(result)[0] < _losses(plain[1])[0] - 0.1


def test_a_plateau_ends_the_training(plain, worker, tmp_path):
    """With a rate of nearly nothing the loss cannot get lower."""
    _data(plain, tmp_path)
    result = _run(
        worker,
        tmp_path,
        "--set=learning_rate_scale=1e-30",
        "--patience=2",
        "--train_steps=1000",
        "--dev_steps=3",
    )
    assert Checkpoints(tmp_path / "m" / "checkpoints", 5).steps()[-1] == 9
    assert len(re.findall("^step .*: dev ", result.out, re.M)) == 3


def test_bleu_of_dev_is_reported_and_ends_the_training(plain, worker, tmp_path):
    """A model that learns nothing translates no better the second time."""
    _data(plain, tmp_path)
    result = _run(
        worker,
        tmp_path,
        "--set=learning_rate_scale=1e-30",
        "--dev_bleu_sentences=5",
        "--patience=2",
        "--train_steps=1000",
        "--dev_steps=3",
        "--checkpoint_steps=3",
    )
    checkpoints = Checkpoints(tmp_path / "m" / "checkpoints", 5)
    assert checkpoints.steps() == [3, 6, 9]
    # Each knows the measure of its own step, or a resumed training lacks it.
    for step in checkpoints.steps():
        with np.load(checkpoints.path(step)) as file:
            history = json.loads(str(file["history"]))
        measured = [measure["step"] for measure in history]
        assert measured == list(range(3, step + 1, 3))
    # The best is kept where BLEU is measured, also without --keep_best.
    assert checkpoints.best_path(3).exists()
    lines = _of_dev(result)
    assert len(lines) == 3
    assert len(set(lines)) == 1


def _of_dev(result):
    return re.findall("^step .*: dev .*BLEU ([0-9.]+)$", result.out, re.M)


@pytest.mark.slow
def test_dev_and_test_are_counted_with_the_tokeniser_asked_for(
    worker, tmp_path
):
    """And when the training goes on, as before."""
    cipher.write(tmp_path)
    options = ("--dev_bleu_sentences=5",)
    first = _run(
        worker, tmp_path, *options, "--train_steps=3", "--tokenize=char"
    )
    later = _run(worker, tmp_path, *options, "--train_steps=6")
    # Letters are right where words, which are what else is counted, are not.
    for result in (first, later):
        (score,) = _of_dev(result)
        assert float(score) > 0
    records = json.loads((tmp_path / "m" / "scores.json").read_text())
    assert [record["step"] for record in records] == [3, 6]
    assert all("|tok:char|" in each["signature"] for each in records)
    refused = _run(worker, tmp_path, *options, "--tokenize=zh", code=2)
    commands.assert_one_clear_line(refused, "tokenize=char, not zh")


# The step's own test is in test_training_model.
@pytest.mark.slow
def test_labels_are_smoothed_as_much_as_asked_for(plain, worker, tmp_path):
    _data(plain, tmp_path)
    result = _run(worker, tmp_path, "--set=label_smoothing=0.5")
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) > 1e-4
    assert _losses(result)[-1] > _losses(plain[1])[-1] + 0.01


def test_bfloat16_rounds_and_learns_the_same(plain, worker, tmp_path):
    _data(plain, tmp_path)
    result = _run(worker, tmp_path, "--precision=mixed_bfloat16")
    difference = _largest_difference(_weights(tmp_path), _weights(plain[0]))
    # Between the rounding of float32 and that of bfloat16, a few updates on.
    assert 1e-5 < difference < 0.05
    assert _losses(result) == pytest.approx(_losses(plain[1]), rel=0.02)


def _dumped_by_xla(folder, option):
    """The names of what XLA compiled in a training, and the training."""
    environment = processes.user_environment()
    environment["XLA_FLAGS"] = f"--xla_dump_to={folder / 'xla'}"
    result = processes.run(
        commands.WMT,
        [*PLAIN, "--model_dir=m", option],
        folder,
        environment,
    )
    assert result.code == 0, result.err
    return [path.name for path in (folder / "xla").glob("*loss_and_grad*")]


@pytest.mark.parametrize(
    "option", ["--jit", pytest.param("--nojit", marks=pytest.mark.slow)]
)
def test_xla_compiles_where_it_is_asked_to(plain, tmp_path, option):
    _data(plain, tmp_path)
    assert bool(_dumped_by_xla(tmp_path, option)) == (option == "--jit")
    assert _largest_difference(_weights(tmp_path), _weights(plain[0])) <= 1e-5


_TELLS = """
import atexit, runpy
from tensorflow.python.framework import config
atexit.register(
    lambda: print("deterministic:", config.is_op_determinism_enabled())
)
runpy.run_module("trainers.wmt", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "asked", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_deterministic_operations_are_asked_of_tensorflow(tmp_path, asked):
    """On CPUs that changes no bit; on GPUs it does."""
    option = "--deterministic" if asked else "--nodeterministic"
    done = subprocess.run(
        [sys.executable, "-c", _TELLS, option, "--dataset=text:none"],
        cwd=tmp_path,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert f"deterministic: {asked}" in done.stdout.splitlines()


@pytest.mark.slow
def test_all_that_the_readme_trains_with_together(worker, tmp_path):
    """Two devices, XLA, bfloat16, packed rows and dropout: as with none."""
    cipher.write(tmp_path)
    many = zip(*cipher.sentences(2000))
    cipher.write_split(tmp_path, "toy.train", *many)
    one_by_length = ("--batching=length", "--shapes=1", "--set=dropout=0")
    arguments = [
        *(each for each in PLAIN if each not in one_by_length),
        *("--set=dropout=0.1", "--row_tokens=64", "--train_steps=200"),
        *("--dev_steps=50", "--report_steps=50", "--set=learning_rate_scale=3"),
        "--batch_tokens=512",
    ]
    flagship = [
        *("--strategy=mirrored", "--logical_cpus=2", "--jit"),
        "--precision=mixed_bfloat16",
    ]
    results = {}
    for name, options in {"plain": [], "flagship": flagship}.items():
        result = commands.wmt(
            *arguments, *options, f"--model_dir={name}", folder=tmp_path
        )
        assert result.code == 0, result.err
        results[name] = _losses(result)
        (record,) = json.loads((tmp_path / name / "scores.json").read_text())
        assert record["step"] == 200
        assert all(map(math.isfinite, results[name]))
    assert "on 2 devices" in result.out
    assert results["flagship"][-1] < 0.8 * results["flagship"][0]
    # What is dropped is another each time, which shows while much is learnt.
    assert results["flagship"] == pytest.approx(results["plain"], rel=0.15)
    # An update is one of both devices: another run goes on where it was.
    result = commands.wmt(
        *arguments,
        *flagship,
        "--train_steps=210",
        "--model_dir=flagship",
        folder=tmp_path,
    )
    assert result.code == 0, result.err
    assert "Resuming from step 200." in result.out
