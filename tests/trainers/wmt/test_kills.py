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


def _start(arguments, folder):
    return processes.start(commands.WMT, arguments, folder)


def _steps(folder):
    return Checkpoints(folder / "m" / "checkpoints", 3).steps()


def _kill_at_the_start(seconds, arguments, folder):
    """Kills after so long, or with the first checkpoint if that is sooner."""
    process = _start(arguments, folder)
    _wait(process, folder, _newest(folder) + 1, time.monotonic() + seconds)
    process.kill()
    process.wait()


def _kill_after_progress(steps, arguments, folder):
    """Kills when there is a checkpoint of so many steps more."""
    process = _start(arguments, folder)
    _wait(process, folder, _newest(folder) + steps, math.inf)
    process.kill()
    process.wait()


def _wait(process, folder, step, end):
    while (
        process.poll() is None
        and _newest(folder) < step
        and time.monotonic() < end
    ):
        time.sleep(0.001)


def _newest(folder):
    return max(_steps(folder), default=0)


def _kill_during_a_write(arguments, folder):
    """Kills as soon as an unfinished checkpoint is seen beside whole ones."""
    process = _start(arguments, folder)
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


def _refuse_difference(folder, other):
    assert _steps(folder)[-1] == _steps(other)[-1]
    paths = [
        Checkpoints(each / "m" / "checkpoints", 3).path(_steps(each)[-1])
        for each in (folder, other)
    ]
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


def test_killed_while_a_checkpoint_is_written(tmp_path):
    arguments = _arguments(tmp_path, STEPS)
    _kill_during_a_write(arguments, tmp_path)
    step = _steps(tmp_path)[-1]
    assert step < STEPS
    result = _finish(arguments, tmp_path)
    assert f"Resuming from step {step}." in result.out
    assert not list((tmp_path / "m" / "checkpoints").glob(".*"))
    _refuse_difference(_uninterrupted(tmp_path / "whole", STEPS), tmp_path)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path):
    arguments = _arguments(tmp_path, MANY_STEPS)
    chance = random.Random(20)
    steps = []
    for number in range(20):
        if number % 4 == 0:
            _kill_at_the_start(chance.uniform(0, 4), arguments, tmp_path)
        elif number % 4 == 1:
            _kill_during_a_write(arguments, tmp_path)
        else:
            _kill_after_progress(chance.randint(1, 80), arguments, tmp_path)
        steps.append(_newest(tmp_path))
    # Each of the latter made progress, and none came too late to matter.
    assert len(set(steps)) >= 10
    assert steps[-1] < MANY_STEPS
    _finish(arguments, tmp_path)
    _refuse_difference(_uninterrupted(tmp_path / "whole", MANY_STEPS), tmp_path)
