"""SIGKILL at any moment: the same command ends with the same bits."""

import math
import random
import time

import numpy as np
import pytest

from tests import processes
from tests.trainers import cipher, commands
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints

STEPS = 100
MANY_STEPS = 3000
ARGUMENTS = (
    *commands.MINUTE,
    "--dev_steps=90",
    "--report_steps=50",
    "--checkpoint_steps=7",
    "--keep_checkpoints=3",
    "--average_checkpoints=3",
    "--deterministic",
    "--model_dir=m",
    "--nojit",
)


def _steps(folder):
    return Checkpoints(folder / "m" / "checkpoints", 3).steps()


def _newest(folder):
    return max(_steps(folder), default=0)


def _kill(arguments, folder, steps=1, seconds=math.inf):
    """Kills after so many seconds, or with a checkpoint of `steps` more."""
    process = processes.start(commands.WMT, arguments, folder)
    step, end = _newest(folder) + steps, time.monotonic() + seconds
    while (
        process.poll() is None
        and _newest(folder) < step
        and time.monotonic() < end
    ):
        time.sleep(0.001)
    process.kill()
    process.wait()


def _kill_during_a_write(arguments, folder):
    """Kills while a temporary file is seen beside checkpoints."""
    process = processes.start(commands.WMT, arguments, folder)
    checkpoints = folder / "m" / "checkpoints"
    while process.poll() is None:
        if _steps(folder) and any(checkpoints.glob(".*.npz")):
            process.kill()
            break
        # Far less than a write takes, and the training needs the processor.
        time.sleep(0.0005)
    process.wait()


def _arguments(folder, steps):
    return (
        *ARGUMENTS,
        f"--train_steps={steps}",
        f"--dataset={cipher.write(folder, splits=('train', 'dev'))}",
    )


def _uninterrupted(folder, steps):
    folder.mkdir()
    _finish(_arguments(folder, steps), folder)
    return folder


def _assert_same_bits(folder, other):
    assert _steps(folder)[-1] == _steps(other)[-1]
    paths = [
        Checkpoints(each / "m" / "checkpoints", 3).path(_steps(each)[-1])
        for each in (folder, other)
    ]
    with np.load(paths[0]) as one, np.load(paths[1]) as two:
        pairs = [(dict(one), dict(two))]
    pairs.append([weights_files.arrays(each / "m") for each in (folder, other)])
    for one, two in pairs:
        assert one.keys() == two.keys()
        for key in one:
            assert one[key].tobytes() == two[key].tobytes(), key


def _finish(arguments, folder):
    result = commands.wmt(*arguments, folder=folder)
    assert result.code == 0, result.err
    return result


def test_killed_while_a_checkpoint_is_written(tmp_path):
    arguments = _arguments(tmp_path, STEPS)
    _kill_during_a_write(arguments, tmp_path)
    step = _steps(tmp_path)[-1]
    assert step < STEPS
    result = _finish(arguments, tmp_path)
    assert f"Resuming from step {step}." in result.out
    assert not list((tmp_path / "m" / "checkpoints").glob(".*"))
    _assert_same_bits(_uninterrupted(tmp_path / "whole", STEPS), tmp_path)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path):
    arguments = _arguments(tmp_path, MANY_STEPS)
    chance = random.Random(20)
    steps = []
    for number in range(20):
        if number % 4 == 0:
            _kill(arguments, tmp_path, seconds=chance.uniform(0, 4))
        elif number % 4 == 1:
            _kill_during_a_write(arguments, tmp_path)
        else:
            _kill(arguments, tmp_path, steps=chance.randint(1, 80))
        steps.append(_newest(tmp_path))
    # Most made progress, and none came too late to matter.
    assert len(set(steps)) >= 10
    assert steps[-1] < MANY_STEPS
    _finish(arguments, tmp_path)
    _assert_same_bits(_uninterrupted(tmp_path / "whole", MANY_STEPS), tmp_path)
