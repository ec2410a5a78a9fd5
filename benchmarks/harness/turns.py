"""Times systems alternately, round by round."""

import contextlib
import random
import sys
import time
import typing

from benchmarks.harness.worker import Timing, Worker
from export.common.errors import InputError

# Threads of some libraries keep spinning after their work.
_PAUSE = 0.3


class Measurement(typing.NamedTuple):
    """Result of one system.

    `warm_up` maps items to the result of their first warm-up, `timings` to one
    Timing per round. `parameters` is None unless the system is a model.
    """

    name: str
    note: str
    parameters: int | None
    peak_bytes: int
    warm_up: dict
    timings: dict[object, list[Timing]]


def measure_systems(
    systems,
    make_job,
    items,
    rounds,
    *,
    warm_up=1,
    arguments=(),
    skip=(),
    alone=False,
):
    """Times every system on every item, alternately and round by round.

    Args:
        systems: dict of name to System, in starting order.
        make_job: function of a name, and a dict of name to
            `Measurement.warm_up` of the systems started before; returns a job.
        items: first arguments of the job's `warm_up` and `calls`.
        rounds, warm_up: number of timings and of warm-ups per item.
        arguments: additional arguments of the job's `calls`.
        skip: (name, item) pairs not to measure.
        alone: whether to load one system at a time, again in every round.

    Returns:
        List of Measurement in the order of the systems.
    """
    answers, facts = {}, {}
    timings = {name: {} for name in systems}

    @contextlib.contextmanager
    def start(name):
        log(f"{name}: starting and warming up")
        with Worker(name, systems[name], make_job(name, answers)) as worker:
            wanted = [item for item in items if (name, item) not in skip]
            warm_ups = [
                {item: worker.warm_up(item) for item in wanted}
                for _ in range(warm_up)
            ]
            answers.setdefault(name, warm_ups[0])
            yield worker
            facts[name] = worker.note, worker.parameters, worker.peak_bytes()

    def measure(worker, item):
        if (worker.name, item) not in skip:
            time.sleep(_PAUSE)
            timing = worker.time(item, *arguments)
            timings[worker.name].setdefault(item, []).append(timing)

    # Shuffled, so that no system always follows the same one.
    order, shuffle = list(systems), random.Random(1).shuffle
    with contextlib.ExitStack() as stack:
        workers = {}
        if not alone:
            workers = {
                name: stack.enter_context(start(name)) for name in systems
            }
        for number in range(rounds):
            if alone:
                shuffle(order)
                for name in order:
                    with start(name) as worker:
                        for item in items:
                            measure(worker, item)
            else:
                for item in items:
                    shuffle(order)
                    for name in order:
                        measure(workers[name], item)
            log(f"round {number + 1} of {rounds} done")
    return [
        Measurement(name, *facts[name], answers[name], timings[name])
        for name in systems
    ]


def log(line):
    """Prints a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


def parse_numbers(flag, values, least=1):
    """Parses the values of a list flag as integers."""
    try:
        numbers = [int(value) for value in values]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < least:
        raise InputError(
            f"Expected --{flag} to be whole numbers from {least} on, separated "
            f"by commas, got {','.join(values)!r}."
        )
    return numbers
