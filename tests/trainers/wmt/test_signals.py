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


def test_the_exit_codes_are_the_shells(runs):
    _, results = runs
    assert [result.code for result in results] == [130, 143, 0]


def test_no_traceback_and_a_word_of_what_to_do(runs):
    _, results = runs
    for result in results[:2]:
        assert "Traceback" not in result.raw_err
        last = _reported(result)[-1]
        assert result.out.endswith(
            f"Saved at step {last}; the same command resumes.\n"
        )


def test_each_goes_on_where_the_last_one_stopped(runs):
    _, results = runs
    reported = [_reported(result) for result in results]
    assert sum(reported, []) == list(range(1, STEPS + 1))
    assert all(reported)
    for before, result in zip(reported, results[1:]):
        assert f"Resuming from step {before[-1]}." in result.out


def test_the_log_knows_every_run_to_its_last_step(runs):
    folder, results = runs
    log = json.loads((folder / "m" / "training.json").read_text())
    ends = [_reported(result)[-1] for result in results]
    assert [run["last_step"] for run in log["runs"]] == ends


def test_in_the_end_the_checkpoints_are_those_of_a_training_never_stopped(
    runs, trained
):
    """Those of every 50 steps and of the last; an average is the same."""
    folder, _ = runs

    def names(directory):
        return {path.name for path in (directory / "checkpoints").iterdir()}

    steps = Checkpoints(folder / "m" / "checkpoints", 9).steps()
    assert steps == [50, 100, STEPS]
    assert names(folder / "m") == names(trained.path)
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
