"""Options of the command that change how it trains, wired together."""

import json
import re
import shutil

import numpy as np
import pytest

from export.loading import load_translator
from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints

STEPS = 9
PLAIN = (
    *commands.MINUTE,
    *("--dataset=text:toy", "--model_dir=m", f"--train_steps={STEPS}"),
    *("--set=dropout=0", "--set=activation=gelu", "--nojit"),
    *("--dev_steps=3", "--report_steps=3", "--checkpoint_steps=3"),
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory, worker):
    """(folder, losses) of a training without any option."""
    folder = tmp_path_factory.mktemp("plain")
    cipher.write(folder, splits=("train", "dev"))
    return folder, _losses(_run(worker, folder))


@pytest.fixture
def folder(tmp_path):
    """A folder with the same data."""
    cipher.write(tmp_path, splits=("train", "dev"))
    return tmp_path


def _run(worker, folder, *options, arguments=PLAIN, code=0):
    result = worker.wmt(*arguments, *options, folder=folder)
    assert result.code == code, result.err
    return result


def _without(*words):
    return [each for each in PLAIN if not any(word in each for word in words)]


def _largest_difference(one, other):
    """Between the final weights of two folders."""
    one, other = (weights_files.arrays(each / "m") for each in (one, other))
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


def _checkpoints(folder):
    return Checkpoints(folder / "m" / "checkpoints", 5)


def _saved_weights(folder, step, kind="step"):
    path = _checkpoints(folder).path(step, kind)
    arrays = weights_files.of_a_checkpoint(path)
    return weights_files.in_order(arrays.values())


def _assert_close(arrays, others, tolerance=0):
    for one, other in zip(arrays, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def _losses(result):
    pattern = r"^step \S+ (?:dev )?loss ([\d.]+)"
    return [float(loss) for loss in re.findall(pattern, result.out, re.M)]


def test_micro_batches_with_a_moving_average(plain, worker, folder):
    """The model is the average; checkpoints hold the last weights."""
    options = ("--accumulate=3", "--ema=0.5")
    losses = _losses(_run(worker, folder, *options))
    # Those on dev are the average's.
    assert losses[0] == pytest.approx(plain[1][0], abs=2e-3)
    last = _saved_weights(folder, STEPS)
    _assert_close(last, weights_files.of_the_model(plain[0] / "m"), 1e-6)
    average = weights_files.of_the_model(folder / "m")
    assert max(np.abs(a - b).max() for a, b in zip(last, average)) > 1e-4


def test_prepared_data_are_used_as_they_are(plain, worker, tmp_path):
    arguments = _without("dataset", "_language")
    data = plain[0] / "m" / "data"
    arguments.append(f"--prepared_dir={data}")
    before = {path: path.stat().st_mtime_ns for path in data.iterdir()}
    result = _run(worker, tmp_path, arguments=arguments)
    assert "Tokenising" not in result.out
    assert _largest_difference(tmp_path, plain[0]) == 0
    assert {p: p.stat().st_mtime_ns for p in data.iterdir()} == before
    other = (f"--source_language={cipher.TARGET}", "--model_dir=other")
    result = _run(worker, tmp_path, *other, arguments=arguments, code=2)
    commands.assert_one_clear_line(result, "source_language")
    assert not (tmp_path / "other").exists()


def test_the_best_step_by_bleu_becomes_the_model(worker, folder):
    """At a rate so high that the model soon gets worse."""
    result = _run(
        worker,
        folder,
        *("--set=learning_rate_scale=300", "--set=warmup_steps=9"),
        *("--dev_bleu_sentences=5", "--patience=2", "--keep_best"),
        "--train_steps=1000",
    )
    checkpoints = _checkpoints(folder)
    last = checkpoints.steps()[-1]
    with np.load(checkpoints.path(last)) as file:
        history = json.loads(str(file["history"]))
    scores = [evaluation["bleu"] for evaluation in history]
    best = scores.index(max(scores))
    # It ended after two evaluations without a better score.
    assert len(scores) - 1 - best == 2 and last == 3 * len(scores)
    step = history[best]["step"]
    assert f"Final weights: step {step}, the best by dev BLEU;" in result.out
    log = json.loads((folder / "m" / "training.json").read_text())
    assert log["weights"]["step"] == step
    model = weights_files.of_the_model(folder / "m")
    _assert_close(model, _saved_weights(folder, step, "best"))
    # Each checkpoint has the evaluation of its own step, for a resume.
    assert [each["step"] for each in history] == [*range(3, last + 1, 3)]


def test_packed_training_for_minutes_then_an_average(worker, tmp_path):
    """Of a corpus that has only a train split; rows are packed by default."""
    cipher.write(tmp_path, splits=("train",))
    arguments = _without("--batching", "--shapes")
    # The first update takes longer than 0.6 ms; the second one hears of it.
    short = ("--row_tokens=24", "--train_minutes=0.00001")
    _run(worker, tmp_path, *short, arguments=arguments)
    assert _checkpoints(tmp_path).steps() == [2]
    options = ("--row_tokens=24", "--checkpoint_steps=2")
    options += ("--keep_checkpoints=2", "--average_checkpoints=3")
    result = _run(worker, tmp_path, *options, arguments=arguments)
    assert "Resuming from step 2." in result.out
    losses = _losses(result)
    assert losses[-1] < losses[0]
    assert "dev loss" not in result.out
    assert "no test split, so there is no score" in result.out
    assert not (tmp_path / "m" / "scores.json").exists()
    load_translator(tmp_path / "m")
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
    _assert_close(weights_files.in_order(means), written, 1e-6)


def test_a_training_without_its_checkpoints_does_not_begin_again(
    plain, worker, tmp_path
):
    """Its model would be replaced by one of few updates."""
    folder = shutil.copytree(plain[0], tmp_path / "copy")
    shutil.rmtree(folder / "m" / "checkpoints")
    before = (folder / "m" / "model.weights.h5").read_bytes()
    result = _run(worker, folder, f"--train_steps={STEPS + 1}", code=2)
    commands.assert_one_clear_line(result, f"step {STEPS}, .*--init_from=m ")
    assert (folder / "m" / "model.weights.h5").read_bytes() == before


def test_a_step_saved_by_a_signal_is_averaged_when_it_is_the_last(
    plain, worker, tmp_path
):
    """As if the training had had that many steps from the beginning."""
    folder = shutil.copytree(plain[0], tmp_path / "copy")
    checkpoints = _checkpoints(folder)
    checkpoints.path(STEPS).rename(checkpoints.path(STEPS, "stop"))
    result = _run(worker, folder, "--average_checkpoints=2")
    assert f"average of the checkpoints of steps 6, {STEPS};" in result.out
    # Else the flag would seem to be ignored.
    assert f"--train_steps={STEPS}" in result.out
    assert checkpoints.steps() == [3, 6, STEPS]


def test_initial_weights_of_a_model(plain, worker, folder):
    """A deeper student begins as its teacher and with its vocabulary."""
    teacher = plain[0] / "m"
    options = (f"--init_layers_from={teacher}", "--train_steps=1")
    result = _run(worker, folder, *options, "--set=num_layers=2")
    assert _losses(result)[0] < plain[1][0] - 0.1
    name = "vocabulary.model"
    assert (folder / "m" / name).read_bytes() == (teacher / name).read_bytes()


@pytest.mark.slow
def test_bfloat16_compiled_with_xla_learns_the_same(plain, folder):
    environment = processes.user_environment()
    environment["XLA_FLAGS"] = f"--xla_dump_to={folder / 'xla'}"
    arguments = [*PLAIN, "--jit", "--precision=mixed_bfloat16"]
    result = processes.run(commands.WMT, arguments, folder, environment)
    assert result.code == 0, result.err
    assert list((folder / "xla").glob("*loss_and_grad*"))
    # Between the rounding of float32 and that of bfloat16, a few updates on.
    assert 1e-5 < _largest_difference(folder, plain[0]) < 0.05
    assert _losses(result) == pytest.approx(plain[1], rel=0.02)


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
    script = tmp_path / "script.py"
    script.write_text(_PRINT_DETERMINISM)
    arguments = ["--deterministic", "--dataset=text:none"]
    done = processes.run({"path": str(script)}, arguments, tmp_path)
    assert done.code == 2, done.err
    assert "deterministic: True" in done.out
