"""Ctrl-C and SIGTERM: the same command resumes and ends up the same."""

import fcntl
import json
import os
import re
import signal
import tempfile

import numpy as np
import pytest

from tests import processes
from tests.trainers import commands
from tests.trainers.wmt import weights_files
from trainers.training.checkpoints import Checkpoints

# The smallest a pipe can be on Linux. With a report of some 100 letters each
# step, training cannot get 60 steps ahead of the test that reads them.
PIPE_BYTES = 4096
STEPS = 120


def _stopped(arguments, folder, number, mark=r"step \d+/"):
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


def _reported(result):
    return [int(n) for n in re.findall(r"^step (\d+)/", result.out, re.M)]


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """(folder, results) of: Ctrl-C, then SIGTERM, then left to its end."""
    folder = tmp_path_factory.mktemp("signals")
    options = ("--report_steps=1", "--attention_steps=0", "--model_dir=m")
    arguments = (*trained.arguments, *options)
    results = [
        _stopped(arguments, folder, signal.SIGINT),
        _stopped(arguments, folder, signal.SIGTERM),
        commands.wmt(*arguments, folder=folder),
    ]
    return folder, results


def test_each_run_saves_and_the_next_one_resumes(runs):
    folder, results = runs
    assert [result.code for result in results] == [130, 143, 0]
    reported = [_reported(result) for result in results]
    assert sum(reported, []) == list(range(1, STEPS + 1))
    ends = [steps[-1] for steps in reported]
    for end, result in zip(ends, results[:2]):
        assert "Traceback" not in result.raw_err
        assert result.out.endswith(
            f"Saved at step {end}; the same command resumes.\n"
        )
    for end, result in zip(ends, results[1:]):
        assert f"Resuming from step {end}." in result.out
    log = json.loads((folder / "m" / "training.json").read_text())
    assert [run["last_step"] for run in log["runs"]] == ends


def test_the_result_is_that_of_an_uninterrupted_training(runs, trained):
    folder, results = runs

    def names(directory):
        return {path.name for path in (directory / "checkpoints").iterdir()}

    steps = Checkpoints(folder / "m" / "checkpoints", 9).steps()
    assert steps == [50, 100, STEPS]
    assert names(folder / "m") == names(trained.path)
    assert [path for path in folder.rglob(".*") if path.is_file()] == []
    one, other = (
        weights_files.arrays(path) for path in (trained.path, folder / "m")
    )
    assert set(one) == set(other)
    for name in one:
        assert np.array_equal(one[name], other[name]), name

    def score(result):
        return re.findall(r"^Test: .*", result.out, re.M)

    assert score(results[-1]) == score(trained.result) != []


def test_ctrl_c_before_training_leaves_a_directory_to_go_on_with(
    trained, tmp_path
):
    """While the vocabulary is made or the text is read."""
    result = _stopped(
        (*trained.arguments, "--model_dir=m"),
        tmp_path,
        signal.SIGINT,
        "Training a vocabulary",
    )
    assert "Training a vocabulary" in result.out
    assert result.code == 130
    assert "Traceback" not in result.raw_err
    hidden = [path for path in tmp_path.rglob(".*") if path.is_file()]
    assert hidden == []
