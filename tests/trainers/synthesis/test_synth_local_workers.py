"""Processes that work, die, and end with the one that started them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from export.errors import InputError
from tests.processes import ROOT
from tests.trainers.synthesis.jobs import answered
from trainers.synthesis import local_workers
from trainers.synthesis.lines import Line, cut_into_shards

LINES = [Line(number, f"line {number}") for number in range(40)]


def jobs():
    return cut_into_shards(LINES, 3)


def expected():
    return {job: answered(job.lines) for job in jobs()}


class DiesOnce:
    """Work on which one process dies: at the line, if the file is there."""

    def __init__(self, path, line):
        self.path, self.line = path, line

    def __call__(self, lines):
        if any(line.number == self.line for line in lines):
            try:
                self.path.unlink()
            except FileNotFoundError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return answered(lines)


def dies(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(lines):
    if lines[0].number >= 30:
        raise InputError("This cannot be translated.")
    return answered(lines)


def test_one_that_is_killed_costs_nothing(tmp_path):
    flag = tmp_path / "flag"
    flag.touch()
    done = [*local_workers.run(DiesOnce(flag, 20), jobs(), 2)]
    assert not flag.exists()
    assert len(done) == 14
    assert dict(done) == expected()


def test_those_that_are_killed_again_and_again_are_told():
    with pytest.raises(InputError, match="killed 3 times in a row"):
        [*local_workers.run(dies, jobs(), 1)]


def test_what_they_refuse_is_told_here():
    done = {}
    with pytest.raises(InputError, match="^This cannot be translated.$"):
        done.update(local_workers.run(refuses, jobs(), 2))


_DRIVER = """
import os, time
from tests.trainers.synthesis.test_synth_local_workers import jobs, sleeps
from trainers.synthesis import local_workers
if __name__ == "__main__":
    [*local_workers.run(sleeps, jobs(), 2)]
"""


def sleeps(lines):
    print(os.getpid(), flush=True)
    time.sleep(600)


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
)
def test_they_end_with_the_one_that_started_them(tmp_path, number):
    (tmp_path / "driver.py").write_text(_DRIVER)
    driver = subprocess.Popen(
        [sys.executable, "driver.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with driver:
        workers = {driver.stdout.readline() for _ in range(2)}
        assert len(workers) == 2
        driver.send_signal(number)
        driver.wait(60)
        # They hold its standard output: it ends with them.
        assert driver.stdout.read() == b""
