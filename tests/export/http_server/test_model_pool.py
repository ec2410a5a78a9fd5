"""Exports that are loaded when used, unloaded, and replaced."""

import concurrent.futures
import threading

import pytest

from export.common.errors import InputError
from export.http_server import model_pool
from export.http_server.model_pool import ModelPool
from export.http_server.models import find_models, load_models
from export.loading import LoadedModel
from export.translators.languages import Languages
from tests.export import commands, tiny

GIB = 2**30


class Disk:
    """Models on disk, each a number that its translations are; 1 GiB each."""

    def __init__(self, max_gib=None):
        self.versions, self.loads = {}, []
        bound = max_gib and max_gib * GIB
        self.pool = ModelPool(bound, self.read_memory)

    def add(self, name, version=1):
        self.versions[name] = version
        return self.pool.add(
            name, lambda: self.load(name), lambda: self.versions[name]
        )

    def load(self, name):
        version = self.versions[name]
        self.loads.append(name)
        if version is None:
            raise InputError("half-written")
        beam_size = 4 if version == "wider" else 2
        return LoadedModel(
            lambda *_: version, {"a": ["text"]}, beam_size, Languages()
        )

    def read_memory(self):
        return len(self.pool.loaded_names()) * GIB


def run(model):
    return model.run("a", {"text": [b"a"]})


def test_the_least_recently_used_leaves():
    disk = Disk(max_gib=2)
    models = {name: disk.add(name) for name in "abc"}
    assert disk.pool.loaded_names() == ["b", "c"]
    run(models["b"])
    run(models["a"])
    assert disk.pool.loaded_names() == ["b", "a"]
    assert disk.loads == [*"abca"]


def test_without_a_bound_all_stay():
    disk = Disk()
    for model in [disk.add(name) for name in "abcabc"]:
        run(model)
    assert len(disk.loads) == 6


def test_a_model_that_runs_stays():
    disk = Disk(max_gib=1)
    models = {name: disk.add(name) for name in "ab"}
    started, ended = threading.Event(), threading.Event()

    def wait(*_):
        started.set()
        ended.wait(60)
        return "late"

    disk.load = lambda name: LoadedModel(
        wait if name == "a" else (lambda *_: "b"), *models["a"][1:]
    )
    with concurrent.futures.ThreadPoolExecutor() as pool:
        late = pool.submit(run, models["a"])
        assert started.wait(60)
        assert run(models["b"]) == "b"
        assert disk.pool.loaded_names() == ["a", "b"]
        ended.set()
        assert late.result(60) == "late"
    # The bound holds again, for all but the last used.
    assert disk.pool.loaded_names() == ["b"]


def test_a_new_version_is_used():
    disk = Disk()
    model = disk.add("a")
    disk.versions["a"] = 2
    assert [run(model), run(model)] == [2, 2]
    assert disk.loads == ["a", "a"]


@pytest.mark.parametrize("version", [None, "wider"])
def test_a_version_that_cannot_be_used_changes_nothing(monkeypatch, version):
    disk = Disk()
    model = disk.add("a")
    disk.versions["a"] = version
    assert [run(model), run(model)] == [1, 1]
    # Not at each request.
    assert len(disk.loads) == 2
    disk.versions["a"] = 3
    assert run(model) == 1
    monkeypatch.setattr(model_pool.time, "monotonic", lambda: 1e12)
    assert run(model) == 3


def test_an_export_that_is_replaced(tmp_path):
    """By one of other weights: its translations are others from then on."""
    paths = {name: tmp_path / name for name in "ab"}
    for seed, path in enumerate(paths.values()):
        tiny.write(tmp_path / f"model{seed}", seed=seed)
        code, _, err = commands.run(
            *("export.onnx", None, [], "--nocheck"),
            *(f"--model_dir={tmp_path}/model{seed}", f"--output_dir={path}"),
        )
        assert code == 0, err
    model, other = load_models(paths, {}).values()
    inputs = {"text": [b"a b c", b"d e"]}

    def score(each):
        return each.run("serving_default", inputs)["score"].tolist()

    before, after = score(model), score(other)
    assert before != after
    (tmp_path / "a").rename(tmp_path / "old")
    # While there is none, the old one is used.
    assert score(model) == before
    (tmp_path / "b").rename(tmp_path / "a")
    assert score(model) == after


def test_folders_of_models(tmp_path, model_path, exported):
    (tmp_path / "some").mkdir()
    for name, target in ("b", model_path), ("a", exported.parent):
        (tmp_path / "some" / name).symlink_to(target)
    (tmp_path / "some" / "other").mkdir()
    found = [*find_models(tmp_path / "some")]
    assert [each.name for each in found] == ["a", "b"]
    for path in model_path, exported, exported.parent, tmp_path / "none":
        assert [*find_models(path)] == [path]


def test_memory_is_bounded_for_exports_alone(model_path):
    with pytest.raises(InputError, match="max_memory_gib"):
        load_models({"a": model_path}, {}, max_bytes=GIB)
