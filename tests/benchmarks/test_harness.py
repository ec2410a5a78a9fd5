"""Turns, timings, tables, and processes that end."""

import itertools

import pytest

from benchmarks.harness import report, turns, worker
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
        items = "x" if each.name == "c" else "xy"
        assert each.warm_up == {
            item: f"job of {each.name} {item}" for item in items
        }
        for item in items:
            places = [int(timing.each[0]) for timing in each.timings[item]]
            seen = [FakeWorker.visits[place - 1] for place in places]
            assert seen == 3 * [(each.name, item)]


@pytest.mark.parametrize("seconds, calls", [(0.0, 1), (1.0, 4)])
def test_calls_are_timed_one_by_one(monkeypatch, seconds, calls):
    now = [5.0]
    monkeypatch.setattr(worker.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += 0.3

    timing = worker.timed(worker.repeat_for(call, seconds))
    assert timing.each == pytest.approx(calls * [0.3])
    assert timing.seconds == pytest.approx(0.3 * calls)
    assert timing.mean == pytest.approx(0.3)


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


def test_tables_and_ratios():
    # The second round was twice as slow for both.
    found = report.ratio([100.0, 50.0, 90.0], [50.0, 25.0, 45.0])
    assert found == report.quartiles([2.0]) == (2.0, 2.0, 2.0)
    assert report.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 2.0, 4.0)
    table = report.markdown_table(["a", "b"], "lr", [["c", "d"]])
    assert table == "| a | b |\n| --- | ---: |\n| c | d |"
