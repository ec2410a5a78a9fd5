"""SIGKILL at any moment: the same command ends with the same bits."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.trainers import cipher, commands, weights_files
from trainers.checkpoints import Checkpoints

STEPS = 400
ARGUMENTS = (
    *commands.MINUTE,
    f"--train_steps={STEPS}",
    "--dev_steps=90",
    "--report_steps=50",
    "--checkpoint_steps=7",
    "--keep_checkpoints=3",
    "--average_checkpoints=3",
    "--deterministic",
    "--model_dir=m",
)


def _start(arguments, folder):
    # Nobody reads what it says: a full pipe would hold it up.
    return subprocess.Popen(
        [sys.executable, "-m", "trainers.wmt", *arguments],
        cwd=folder,
        env=commands.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill_after(seconds, arguments, folder):
    process = _start(arguments, folder)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_during_a_write(arguments, folder):
    """Kills as soon as an unfinished checkpoint is seen."""
    process = _start(arguments, folder)
    checkpoints = folder / "m" / "checkpoints"
    while process.poll() is None:
        if checkpoints.is_dir() and any(checkpoints.glob(".*.npz")):
            process.kill()
            break
    process.wait()


def _arguments(folder):
    return (*ARGUMENTS, f"--dataset={cipher.write(folder)}")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """(folder, seconds) of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    started = time.monotonic()
    result = commands.wmt(*_arguments(folder), folder=folder)
    assert result.code == 0, result.err
    return folder, time.monotonic() - started


def _refuse_difference(folder, other):
    name = f"step-{STEPS:08d}.npz"
    paths = [each / "m" / "checkpoints" / name for each in (folder, other)]
    with np.load(paths[0]) as one, np.load(paths[1]) as two:
        assert set(one.files) == set(two.files)
        for key in one.files:
            assert one[key].tobytes() == two[key].tobytes(), key
    weights = [weights_files.arrays(each / "m") for each in (folder, other)]
    assert weights[0].keys() == weights[1].keys()
    for key, array in weights[0].items():
        assert array.tobytes() == weights[1][key].tobytes(), key


def _finish(arguments, folder):
    result = commands.wmt(*arguments, folder=folder)
    assert result.code == 0, result.err
    return result


def test_killed_while_a_checkpoint_is_written(uninterrupted, tmp_path):
    arguments = _arguments(tmp_path)
    _kill_during_a_write(arguments, tmp_path)
    folder = tmp_path / "m" / "checkpoints"
    before = Checkpoints(folder, keep=3).steps()
    result = _finish(arguments, tmp_path)
    if before:
        assert f"Going on from step {before[-1]}." in result.out
    assert not list(folder.glob(".*"))
    _refuse_difference(uninterrupted[0], tmp_path)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(uninterrupted, tmp_path):
    arguments = _arguments(tmp_path)
    chance = random.Random(20)
    steps = []
    for number in range(20):
        if number % 4 == 3:
            _kill_during_a_write(arguments, tmp_path)
        else:
            _kill_after(
                chance.uniform(0, uninterrupted[1]), arguments, tmp_path
            )
        steps += Checkpoints(tmp_path / "m" / "checkpoints", 3).steps()[-1:]
    # Or the kills came too early or too late to matter.
    assert len(set(steps)) >= 4
    _finish(arguments, tmp_path)
    _refuse_difference(uninterrupted[0], tmp_path)
