"""On a Ray cluster: the same pairs, whoever dies."""

import pathlib
import sys
import types

import pytest

from export.errors import InputError
from tests.trainers.synthesis import jobs
from tests.trainers.synthesis.clusters import (
    Cluster,
    free_port,
    kill,
    needs_ray,
    until,
)
from tests.trainers.synthesis.jobs import OPTIONS
from tests.trainers.synthesis.runs import (
    assert_broken_is_told,
    broken_copy,
    contents,
    finish,
    shards_in,
    start,
)
from trainers.synthesis import model_bundle, ray_workers
from trainers.synthesis.models import hash_model_files
from trainers.synthesis.translation_job import TranslationJob


@pytest.fixture
def work(tmp_path):
    models = [
        jobs.made_up_model(tmp_path / name, name.encode()) for name in "ab"
    ]
    return TranslationJob(tuple(models), OPTIONS)


def refusal(work, address):
    with pytest.raises(InputError) as caught:
        next(ray_workers.run(work, iter([]), address))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_ray_the_way_to_get_it_is_told(work, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install -r requirements-ray.txt" in refusal(work, "auto")


@pytest.mark.parametrize("address", ["somewhere", "127.0.0.1:{port}", "a:b"])
def test_a_cluster_that_is_not_there_is_told(work, monkeypatch, address):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    address = address.format(port=free_port())
    assert f"--ray={address} does not answer" in refusal(work, address)


def test_a_shipment_holds_the_models(work, tmp_path):
    sent = model_bundle.ModelBundle.from_job(work)
    for model in work.models:
        jobs.made_up_model(pathlib.Path(model.path), b"other")
    there = sent.unpack(tmp_path / "there")
    assert there.options == work.options
    for before, after in zip(work.models, there.models, strict=True):
        assert before.path != after.path
        assert hash_model_files(after.path) == after
        assert after.sha256 == before.sha256


def test_a_process_unpacks_once_and_leaves_no_copy(work, monkeypatch):
    sent, loaded = model_bundle.ModelBundle.from_job(work), []

    def load(work):
        assert [hash_model_files(model.path) for model in work.models]
        loaded.append(work)

    monkeypatch.setattr(TranslationJob, "load", load)
    monkeypatch.setattr(model_bundle, "_LOADED", {})
    there = model_bundle.load_bundle(work, lambda: sent)
    assert model_bundle.load_bundle(work, lambda: sent) is there
    assert loaded == [there]
    assert not any(pathlib.Path(each.path).exists() for each in there.models)


@needs_ray
@pytest.mark.slow
def test_ray_without_a_cluster_is_told(work, monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert "ray start --head" in refusal(work, "auto")


@needs_ray
@pytest.mark.slow
def test_ray_nodes_and_workers_may_die(text, model_path, tmp_path):
    alone = tmp_path / "alone"
    finish(start(text, model_path, alone, "--workers=1"))
    output = tmp_path / "out"
    with Cluster(nodes=3) as cluster:
        process = start(text, model_path, output, f"--ray={cluster.address}")
        try:
            until(lambda: shards_in(output) > 1, "some shards")
            kill(until(lambda: cluster.busy_worker(1), "a worker at work"))
            until(lambda: cluster.busy_worker(2), "a node at work")
            cluster.kill_node(2)
            assert 1 < shards_in(output) < 100
            finish(process)
        finally:
            process.kill()
        assert contents(output) == contents(alone)
        other, at = tmp_path / "other", f"--ray={cluster.address}"
        broken = broken_copy(model_path, tmp_path)
        assert_broken_is_told(start(text, broken, other, at))
        # Two machines of one processor each are left.
        two = start(text, model_path, other, at, "--threads=2")
        _, err = two.communicate()
        assert "has the 2 processors and 0 GPUs that a shard needs" in err
    assert not [*other.iterdir()]


@needs_ray
@pytest.mark.slow
def test_a_lost_head_is_told_and_the_work_goes_on(text, model_path, tmp_path):
    alone, output = tmp_path / "alone", tmp_path / "out"
    with Cluster(nodes=2) as cluster:
        process = start(text, model_path, output, f"--ray={cluster.address}")
        try:
            until(lambda: shards_in(output) > 1, "some shards")
            cluster.kill_node(0)
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    # Ray ends the process itself, after a minute.
    assert process.returncode
    assert "GCS may have been killed" in err
    assert 1 < shards_in(output) < 100
    finish(start(text, model_path, output, "--workers=1"))
    finish(start(text, model_path, alone, "--workers=1"))
    assert contents(output) == contents(alone)
