"""Ctrl-C and SIGTERM: the same command goes on and ends up the same."""

import os
import re
import signal

import numpy as np
import pytest

from tests.trainers import commands, weights_files
from trainers.checkpoints import Checkpoints

# The smallest a pipe can be. With a report of some 100 letters each step,
# training cannot get 60 steps ahead of the test that reads them.
PIPE_BYTES = 4096
STEPS = 120


def _stopped(arguments, folder, number):
    """Runs the command and sends a signal after the first step's report."""
    process = commands.start(*arguments, folder=folder, pipesize=PIPE_BYTES)
    out = ""
    for line in process.stdout:
        out += line
        if re.match(r"step \d+/", line):
            os.kill(process.pid, number)
            break
    result = commands.finish(process)
    return commands.Result(result.code, out + result.out, result.raw_err)


def _reported(result):
    return [int(n) for n in re.findall(r"^step (\d+)/", result.out, re.M)]


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """(folder, results) of: Ctrl-C, then SIGTERM, then left to its end."""
    folder = tmp_path_factory.mktemp("signals")
    arguments = (*trained.arguments, "--report_steps=1", "--model_dir=m")
    results = [
        _stopped(arguments, folder, signal.SIGINT),
        _stopped(arguments, folder, signal.SIGTERM),
        commands.wmt(*arguments, folder=folder),
    ]
    return folder, results


def test_the_exit_codes_are_the_shells(runs):
    _, results = runs
    assert [result.code for result in results] == [130, 143, 0]


def test_no_traceback_and_a_word_of_what_to_do(runs):
    _, results = runs
    for result in results[:2]:
        assert "Traceback" not in result.raw_err
        last = _reported(result)[-1]
        assert result.out.endswith(
            f"Saved at step {last}; the same command goes on.\n"
        )


def test_each_goes_on_where_the_last_one_stopped(runs):
    _, results = runs
    reported = [_reported(result) for result in results]
    assert sum(reported, []) == list(range(1, STEPS + 1))
    assert all(reported)
    for before, result in zip(reported, results[1:]):
        assert f"Going on from step {before[-1]}." in result.out


def test_what_it_stopped_with_was_kept(runs):
    folder, results = runs
    steps = Checkpoints(folder / "m" / "checkpoints", 9).steps()
    stopped = [_reported(result)[-1] for result in results]
    # Those of every 50 steps, and those of the two signals.
    assert steps == sorted({50, 100, *stopped})
    hidden = [path for path in folder.rglob(".*") if path.is_file()]
    assert hidden == []


def test_the_model_is_the_one_of_a_training_never_stopped(runs, trained):
    folder, results = runs

    one, other = (
        weights_files.arrays(path) for path in (trained.path, folder / "m")
    )
    assert set(one) == set(other)
    for name in one:
        assert np.array_equal(one[name], other[name]), name

    def ending(result):
        return re.findall(r"^Test: .*", result.out, re.M)

    assert ending(results[-1]) == ending(trained.result) != []


def test_ctrl_c_before_training_leaves_a_directory_to_go_on_with(
    trained, tmp_path
):
    """While the vocabulary is made or the text is read."""
    process = commands.start(
        *trained.arguments, "--model_dir=m", folder=tmp_path
    )
    line = ""
    for line in process.stdout:
        if line.startswith("Training a vocabulary"):
            os.kill(process.pid, signal.SIGINT)
            break
    assert line.startswith("Training a vocabulary")
    result = commands.finish(process)
    assert result.code == 130
    assert "Traceback" not in result.raw_err
    hidden = [path for path in tmp_path.rglob(".*") if path.is_file()]
    assert hidden == []
