"""Local processes and Ray tasks: the same pairs, whoever dies."""

import multiprocessing
import os
import pathlib
import subprocess
import sys
import time
import types

import pytest

from tests.processes import ROOT
from tests.trainers.data.memory_corpus import refused
from tests.trainers.synthesis import jobs
from trainers.synthesis import workers


def test_local_workers_translate_all_shards():
    done = dict(workers.run_local(jobs.translated, jobs.shards(), 2))
    expected = {each: jobs.translated(each.lines) for each in jobs.shards()}
    assert done == expected


def test_failures_of_local_workers_are_input_errors():
    # A process that is not the pool's must not end with it.
    other = multiprocessing.get_context("spawn").Process(
        target=time.sleep, args=(600,)
    )
    other.start()
    for job, message in (
        (jobs.dies, "was killed"),
        (jobs.refuses_some, "^This cannot be translated.$"),
    ):
        with refused(message):
            dict(workers.run_local(job, jobs.shards(), 1))
    assert other.is_alive()
    other.kill()


_DRIVER = """
from tests.trainers.synthesis.jobs import shards, sleeps
from trainers.synthesis import workers
if __name__ == "__main__":
    [*workers.run_local(sleeps, shards(), 1)]
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
        assert driver.stdout.readline()
        driver.kill()
        driver.wait(60)
        # The worker holds its standard output: it ends with it.
        assert driver.stdout.read() == b""


@pytest.fixture
def job(tmp_path):
    found = [jobs.made_up_model(tmp_path / n, n.encode()) for n in "ab"]
    return workers.TranslationJob(tuple(found), jobs.OPTIONS)


def test_models_are_received_once_and_leave_no_copy(job, monkeypatch):
    contents, fetched, loaded = workers.read_model_files(job.models), [], []
    for model in job.models:
        jobs.made_up_model(pathlib.Path(model.path), b"other")

    def fetch():
        fetched.append(1)
        return contents

    def load_translator(here):
        here.validate_unchanged()
        loaded.append(here)

    monkeypatch.setattr(workers, "load_translator", load_translator)
    monkeypatch.setattr(workers, "_LOCAL_JOBS", {})
    here = [workers.localize_job(job, fetch) for _ in range(2)]
    assert here == 2 * loaded and len(fetched) == 1
    assert here[0].options == job.options
    for model, before in zip(here[0].models, job.models, strict=True):
        assert model.sha256 == before.sha256
        assert not pathlib.Path(model.path).exists()


def test_ray_that_is_not_there_is_refused(job, monkeypatch):
    def check(address, match):
        with refused(match):
            next(workers.run_on_ray(job, iter([]), address))

    monkeypatch.setitem(sys.modules, "ray", None)
    check("auto", "requirements-ray.txt")

    def init(*_, **__):
        raise ConnectionError("nobody there.\nA trace")

    ray = types.SimpleNamespace(init=init)
    monkeypatch.setitem(sys.modules, "ray", ray)
    check("auto", "--ray=auto cannot be used: nobody there[.]")
    # Nothing listens at port 1.
    for address in ("somewhere", "a:b", "127.0.0.1:1"):
        check(address, f"--ray={address} does not respond")
