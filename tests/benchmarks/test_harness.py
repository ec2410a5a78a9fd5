"""Turns, what is measured again, and processes that end."""

import itertools

import pytest

from benchmarks.decoding.job import DecodeJob
from benchmarks.harness import turns
from benchmarks.harness.report import markdown_table
from benchmarks.harness.systems import System
from benchmarks.harness.worker import Worker
from export.errors import InputError


class Named:
    def __init__(self, name):
        self.name = name


def test_everyone_has_each_turn_once_a_round():
    workers, seen = [Named(name) for name in "abcd"], []

    def visit(worker, item):
        seen.append((worker.name, item))
        return len(seen)

    made = turns.time_in_turns(workers, ["x", "y"], 3, visit)
    every = set(itertools.product("abcd", "xy"))
    assert set(made) == every
    for number in range(3):
        part = seen[8 * number : 8 * number + 8]
        assert set(part) == every
        assert [item for _, item in part] == 4 * ["x"] + 4 * ["y"]
    for (name, item), places in made.items():
        assert [seen[place - 1] for place in places] == 3 * [(name, item)]
    orders = {
        tuple(name for name, _ in seen[start : start + 4])
        for start in range(0, 24, 4)
    }
    assert len(orders) > 1


@pytest.mark.parametrize("at_least, calls", [(0.0, 1), (1.0, 4)])
def test_calls_are_timed_one_by_one(monkeypatch, at_least, calls):
    now = [5.0]
    monkeypatch.setattr(turns.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += 0.3

    visit = turns.timed(turns.repeat_for(call, at_least))
    assert visit.each == pytest.approx(calls * [0.3])
    assert visit.seconds == pytest.approx(0.3 * calls)
    assert visit.mean == pytest.approx(0.3)


@pytest.mark.parametrize(
    "others, found, disturbed",
    [
        # Seconds of other programs in each try, of 10 s on 2 cores.
        ([0.0], 9.0, 0),
        ([5.0, 1.0], 8.0, 0),
        ([5.0, 5.0, 5.0], 7.0, 1),
    ],
)
def test_what_others_disturbed_is_measured_again(
    monkeypatch, others, found, disturbed
):
    tries = iter(
        [turns.Visit([9.0], 4.0), turns.Visit([8.0], 4.0)]
        + [turns.Visit([6.0, 8.0], 4.0)]
    )
    clock = itertools.accumulate(
        itertools.chain.from_iterable((0.0, 4.0 + each) for each in others)
    )
    monkeypatch.setattr(turns, "busy_seconds", lambda: next(clock))
    monkeypatch.setattr(turns.os, "cpu_count", lambda: 2)
    watch = turns.NoiseMonitor(3)
    visit = watch.measure(lambda: next(tries))
    assert visit.mean == found
    assert (watch.visits, watch.disturbed) == (1, disturbed)
    assert next(clock, None) is None


def test_a_system_that_fails_says_what_it_said_last():
    job = DecodeJob("", "", {}, "float32", "cpu", 1, [], [])
    worker = Worker("broken", System("no_such_peer:make", "", "jax"), job)
    with pytest.raises(InputError, match="no_such_peer") as error, worker:
        pass
    first = str(error.value).splitlines()[0]
    assert first.startswith("System broken ended with code 1; leave it out")


def test_a_table_in_markdown():
    assert markdown_table(["a", "b"], "lr", [["c", "d"]]) == (
        "| a | b |\n| --- | ---: |\n| c | d |"
    )
