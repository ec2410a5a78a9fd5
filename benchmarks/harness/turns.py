"""Who is timed when: in turns, and again where other programs disturbed it."""

import collections
import os
import pathlib
import random
import sys
import time
import typing

# Fields of /proc/stat, ticks since boot: user, nice, system, irq, softirq and
# steal, which is what a virtual machine's host took for others.
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
_NOISE = 0.08


class Visit(typing.NamedTuple):
    """Some calls of one system, one after the other.

    Attributes:
        each: seconds on the clock of every call.
        cpu_seconds: processor seconds of all calls, of all cores together.
    """

    each: list[float]
    cpu_seconds: float

    @property
    def seconds(self):
        """Seconds on the clock of all calls."""
        return sum(self.each)

    @property
    def mean(self):
        """Seconds on the clock of a call."""
        return self.seconds / len(self.each)

    @property
    def mean_cpu(self):
        """Processor seconds of a call."""
        return self.cpu_seconds / len(self.each)


def timed(calls):
    """Makes calls one after the other.

    Args:
        calls: iterable of functions without arguments, each of which returns
            when its work is done.

    Returns:
        Visit.
    """
    cpu, each = time.process_time(), []
    for call in calls:
        started = time.perf_counter()
        call()
        each.append(time.perf_counter() - started)
    return Visit(each, time.process_time() - cpu)


def repeat_for(call, seconds):
    """Yields a function until so much time has passed, once at least."""
    end = time.perf_counter() + seconds
    yield call
    while time.perf_counter() < end:
        yield call


class NoiseMonitor:
    """Measures again what other programs disturbed.

    Attributes:
        visits: measured so far.
        disturbed: of those, in which others took more than 8 % of all cores
            at every try.

    Args:
        tries: how often a visit is measured, at most.
    """

    def __init__(self, tries):
        self.visits = self.disturbed = 0
        self._tries = tries

    def measure(self, measure):
        """Measures until nothing disturbs or there is no try left.

        Args:
            measure: function without arguments; returns a Visit.

        Returns:
            The Visit that nothing disturbed; failing that, the shortest.
        """
        made = []
        for _ in range(self._tries):
            others = -busy_seconds()
            one = measure()
            others += busy_seconds() - one.cpu_seconds
            made.append(one)
            disturbed = others > _NOISE * one.seconds * (os.cpu_count() or 1)
            if not disturbed:
                break
        self.visits += 1
        self.disturbed += disturbed
        return min(made, key=lambda visit: visit.mean) if disturbed else one


def busy_seconds():
    """Returns the processor seconds used since boot; 0 where not known."""
    try:
        text = pathlib.Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    ticks = [int(field) for field in text.splitlines()[0].split()[1:]]
    busy = sum(ticks[field] for field in _BUSY_FIELDS)
    return busy / os.sysconf("SC_CLK_TCK")


def shuffled_orders(names):
    """Yields the names in another order each time, without end.

    So none always follows the same.
    """
    order, shuffle = list(names), random.Random(1).shuffle
    while True:
        shuffle(order)
        yield list(order)


def time_in_turns(workers, items, rounds, visit):
    """Visits every worker for every item, round by round.

    Args:
        workers: iterable of Worker.
        items: what each is visited for: batches' numbers, or sizes.
        rounds: how often.
        visit: function of a Worker and an item; returns a Visit.

    Returns:
        Dict of (worker's name, item) to a list of Visit, one a round.
    """
    made = collections.defaultdict(list)
    orders = shuffled_orders(workers)
    for number in range(rounds):
        for item in items:
            for worker in next(orders):
                made[worker.name, item].append(visit(worker, item))
        log_round(number, rounds)
    return made


def log_round(number, rounds):
    """Tells the user that a round is done; the first is number 0."""
    log(f"round {number + 1} of {rounds} done")


def log(line):
    """Tells the user how it goes."""
    print(line, file=sys.stderr, flush=True)
