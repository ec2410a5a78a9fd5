"""Turns, timings, tables, and processes that end."""

import itertools

import pytest

from benchmarks.harness import turns, worker
from benchmarks.harness.worker import System, Timing, Worker
from benchmarks.layer_types.layers import LayerJob
from export.common.errors import InputError


class FakeWorker:
    """Records its visits; memory is the number of them."""

    visits: list = []
    note, parameters = "here", 3

    def __init__(self, name, system, job):
        self.name, self._job = name, job

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.visits.append((self.name, "end"))

    def warm_up(self, item):
        return f"{self._job} {item}"

    def time(self, item, seconds):
        assert seconds == 0.5
        self.visits.append((self.name, item))
        return Timing([float(len(self.visits))], 1.0)

    def peak_bytes(self):
        return len(self.visits)


@pytest.mark.parametrize("alone", [False, True])
def test_everyone_has_each_turn_once_a_round(monkeypatch, alone):
    monkeypatch.setattr(turns, "Worker", FakeWorker)
    monkeypatch.setattr(turns, "_PAUSE", 0.0)
    monkeypatch.setattr(FakeWorker, "visits", [])
    started = {}

    def make_job(name, answers):
        started.setdefault(name, list(answers))
        return f"job of {name}"

    more = {"arguments": (0.5,), "skip": {("c", "y")}, "alone": alone}
    results = turns.measure_systems(
        dict.fromkeys("abcd"), make_job, ["x", "y"], 3, **more
    )
    visits = [each for each in FakeWorker.visits if each[1] != "end"]
    every = set(itertools.product("abcd", "xy")) - {("c", "y")}
    rounds = [visits[7 * number : 7 * number + 7] for number in range(3)]
    assert [set(each) for each in rounds] == 3 * [every]
    assert len({tuple(each) for each in rounds}) > 1
    assert len(FakeWorker.visits) - len(visits) == (12 if alone else 4)
    assert alone or started["d"] == list("abc")
    assert [each.name for each in results] == list("abcd")
    for each in results:
        for item in "x" if each.name == "c" else "xy":
            places = [int(timing.each[0]) for timing in each.timings[item]]
            seen = [FakeWorker.visits[place - 1] for place in places]
            assert seen == 3 * [(each.name, item)]


def test_a_system_that_fails_is_named_with_its_last_lines():
    system = System("no_such_peer:make", keras_backend="tensorflow")
    with (
        pytest.raises(InputError, match="System broken .*(?s:.)*no_such_peer"),
        Worker("broken", system, LayerJob(1)),
    ):
        pass


def test_systems_are_selected_by_name_and_package():
    tables = {
        "tensorflow": {
            "here": System("a:a", "numpy"),
            "there": System("b:b", "numpy no_such_package"),
        }
    }
    [name] = worker.select_systems(tables, "tensorflow", [])
    assert name == "here"
    for backend, names, wrong in (
        ("openvino", [], "openvino"),
        ("tensorflow", ["theirs"], "theirs"),
        ("tensorflow", ["there"], "no_such_package"),
    ):
        with pytest.raises(InputError, match=wrong):
            worker.select_systems(tables, backend, names)
