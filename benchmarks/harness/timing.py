"""Timing that survives a shared machine: interleaved rounds and quartiles."""

import dataclasses
import statistics
import time
import typing


@dataclasses.dataclass(frozen=True)
class Spread:
    """A quantity measured once a round.

    Attributes:
        median: of the rounds.
        low: first quartile.
        high: third quartile.
    """

    median: float
    low: float
    high: float

    def __format__(self, form):
        """Writes "median (low–high)", each number by the form."""
        return f"{self.median:{form}} ({self.low:{form}}–{self.high:{form}})"


def spread(values):
    """Returns the Spread of one value a round."""
    values = list(values)
    if len(values) == 1:
        return Spread(*values * 3)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def ratio(numerators, denominators):
    """Returns the Spread of the quotients, taken round by round.

    Both were measured in the same round, so what slows a whole round down
    cancels.
    """
    return spread(a / b for a, b in zip(numerators, denominators))


class Visit(typing.NamedTuple):
    """Some calls of the same function, one after the other.

    Attributes:
        seconds: a call took on the clock, on average.
        cpu_seconds: processor seconds of a call, of all cores together.
        calls: how many there were.
    """

    seconds: float
    cpu_seconds: float
    calls: int


def visit(run, at_least):
    """Calls `run` until some time has passed, once at least.

    Args:
        run: function without arguments that returns when its work is done.
        at_least: seconds.

    Returns:
        Visit.
    """
    started, cpu_started = time.perf_counter(), time.process_time()
    calls, passed = 0, 0.0
    while passed < at_least or not calls:
        run()
        calls += 1
        passed = time.perf_counter() - started
    cpu = time.process_time() - cpu_started
    return Visit(passed / calls, cpu / calls, calls)
