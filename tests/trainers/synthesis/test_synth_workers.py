"""Local processes and Ray tasks: the same pairs, whoever dies."""

import contextlib
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import types

import psutil
import pytest

from export.common.errors import InputError
from tests.processes import ROOT
from tests.trainers.synthesis import jobs
from tests.trainers.synthesis.runs import (
    contents,
    count_shards,
    finish,
    start,
    wait_until,
)
from trainers.synthesis import models, workers
from trainers.synthesis.shards import LineSource, cut_into_shards

_LINES = [(f"line {number}", "") for number in range(40)]


def shards():
    return cut_into_shards(LineSource("lines", lambda: _LINES, False), 3)


def dies(lines):
    os.kill(os.getpid(), signal.SIGKILL)


def refuses_some(lines):
    if lines[0].number >= 30:
        raise InputError("This cannot be translated.")
    return jobs.translated(lines)


def sleeps(lines):
    print(os.getpid(), flush=True)
    time.sleep(600)


def test_local_workers_translate_all_shards():
    done = dict(workers.run_local(jobs.translated, shards(), 2))
    assert done == {each: jobs.translated(each.lines) for each in shards()}


@pytest.mark.parametrize(
    "job, message",
    [(dies, "was killed"), (refuses_some, "^This cannot be translated.$")],
)
def test_failures_of_local_workers_are_input_errors(job, message):
    # A process that is not the pool's must not end with it.
    other = multiprocessing.get_context("spawn").Process(
        target=time.sleep, args=(600,)
    )
    other.start()
    with pytest.raises(InputError, match=message):
        dict(workers.run_local(job, shards(), 2))
    assert other.is_alive()
    other.kill()
    other.join()


_DRIVER = """
from tests.trainers.synthesis.test_synth_workers import shards, sleeps
from trainers.synthesis import workers
if __name__ == "__main__":
    [*workers.run_local(sleeps, shards(), 2)]
"""


def test_local_workers_end_with_the_main_process(tmp_path):
    (tmp_path / "driver.py").write_text(_DRIVER)
    driver = subprocess.Popen(
        [sys.executable, "driver.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with driver:
        assert len({driver.stdout.readline() for _ in range(2)}) == 2
        driver.kill()
        driver.wait(60)
        # They hold its standard output: it ends with them.
        assert driver.stdout.read() == b""


@pytest.fixture
def job(tmp_path):
    found = [jobs.made_up_model(tmp_path / n, n.encode()) for n in "ab"]
    return models.TranslationJob(tuple(found), jobs.OPTIONS)


def test_models_are_received_once_and_leave_no_copy(job, monkeypatch):
    contents, fetched, loaded = models.read_model_files(job.models), [], []
    for model in job.models:
        jobs.made_up_model(pathlib.Path(model.path), b"other")

    def fetch():
        fetched.append(1)
        return contents

    def load_translator(here):
        models.validate_unchanged(here.models)
        loaded.append(here)

    monkeypatch.setattr(models, "load_translator", load_translator)
    monkeypatch.setattr(models, "_LOADED", {})
    here = [models.load_shipped_models(job, fetch) for _ in range(2)]
    assert here == 2 * loaded and len(fetched) == 1
    assert here[0].options == job.options
    for model, before in zip(here[0].models, job.models, strict=True):
        assert model.sha256 == before.sha256
        assert not pathlib.Path(model.path).exists()


def refusal(job, address):
    with pytest.raises(InputError) as caught:
        next(workers.run_on_ray(job, iter([]), address))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_ray_that_is_not_there_is_refused(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "requirements-ray.txt" in refusal(job, "auto")
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    # Nothing listens at port 1.
    for address in ("somewhere", "a:b", "127.0.0.1:1"):
        assert f"--ray={address}" in refusal(job, address)


@pytest.fixture
def cluster(monkeypatch):
    """A Ray cluster of three nodes of one CPU each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    node = {"num_cpus": 1, "include_dashboard": False}
    running = cluster_utils.Cluster(initialize_head=True, head_node_args=node)
    running.added = [running.add_node(num_cpus=1) for _ in range(2)]
    yield running
    running.shutdown()


def kill_busy_worker():
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::_translate" in "".join(process.cmdline()):
                process.kill()
                return True
    return False


@pytest.mark.slow
def test_ray_nodes_and_workers_may_die(cluster, text, model_path, tmp_path):
    alone, output = tmp_path / "alone", tmp_path / "out"
    at = f"--ray={cluster.address}"
    process = start(text, model_path, output, at)
    wait_until(lambda: count_shards(output) > 1, "some shards")
    wait_until(kill_busy_worker, "a busy worker")
    cluster.remove_node(cluster.added[0], allow_graceful=False)
    assert 1 < count_shards(output) < 100
    finish(process)
    finish(start(text, model_path, alone, "--workers=1"))
    assert contents(output) == contents(alone)
    # Errors of Ray's workers and of Ray are one line, and nothing is written.
    broken, other = tmp_path / "broken", tmp_path / "other"
    shutil.copytree(model_path, broken)
    (broken / "model.weights.h5").write_bytes(b"no weights")
    for path, flag, message in (
        (broken, "--threads=1", "broken/model.weights.h5"),
        # No machine has two CPUs.
        (model_path, "--threads=2", "2 processors and 0 GPUs"),
    ):
        process = start(text, path, other, at, flag)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 2, err
        (line,) = (line for line in err.splitlines() if "Error" in line)
        assert message in line
        assert not [*other.iterdir()]
