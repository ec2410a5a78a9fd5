"""Runs all systems in turns."""

import contextlib
import dataclasses
import pathlib
import random
import tempfile
import typing

from benchmarks.harness.matrix_products import flops
from benchmarks.harness.turns import Watch
from benchmarks.harness.worker import Worker
from benchmarks.training_step.batches import save_batches
from benchmarks.training_step.report import Result


def measure_together(
    chosen, backend, job, rounds, warm_up, at_least, watch, say
):
    """Times every system on every batch, round by round, all in memory.

    Args:
        chosen: dict of name to System.
        backend: of Keras, that the names are of.
        job: Job.
        rounds: how often each system visits each shape.
        warm_up: updates on each shape before any is timed, at least 1.
        at_least: seconds that a visit takes, at least.
        watch: Watch, which sees to it that nothing else is measured.
        say: function of a line that tells how it goes.

    Returns:
        List of Result, in the order of `chosen`.

    Raises:
        InputError: a system failed.
    """
    with contextlib.ExitStack() as stack:
        settings = stack.enter_context(_settings(job))
        workers, losses = [], []
        for name, system in chosen.items():
            say(f"{name}: starting and warming up")
            worker = stack.enter_context(
                Worker(name, system, backend, settings)
            )
            losses.append(_warm_up(worker, len(job.batches), warm_up))
            workers.append(worker)
        visits = _Visits(len(job.batches), rounds, at_least, watch, say)
        made = visits.of(workers)
        return [
            _result(worker, job, loss, worker.peak_bytes(), made[worker.name])
            for worker, loss in zip(workers, losses)
        ]


def measure_alone(chosen, backend, job, rounds, warm_up, at_least, watch, say):
    """Does what `measure_together` does with one system in memory at a time.

    Each is started anew, and warmed up, in every round.
    """
    made = {name: [] for name in chosen}
    known = {}
    order, shuffle = list(chosen.items()), random.Random(1).shuffle
    shapes = len(job.batches)
    with _settings(job) as settings:
        for number in range(rounds):
            shuffle(order)
            for name, system in order:
                with Worker(name, system, backend, settings) as worker:
                    loss = _warm_up(worker, shapes, warm_up)
                    visits = [
                        _visit(worker, shape, at_least, watch)
                        for shape in range(shapes)
                    ]
                    known[name] = worker, job, loss, worker.peak_bytes()
                made[name].append(visits)
            say(f"round {number + 1} of {rounds} done")
    return [_result(*known[name], made[name]) for name in chosen]


@contextlib.contextmanager
def _settings(job):
    with tempfile.TemporaryDirectory() as folder:
        batches = pathlib.Path(folder) / "batches.npz"
        save_batches(batches, job.batches)
        yield job.settings(batches)


def _warm_up(worker, shapes, updates):
    losses = [
        worker.run(shape) for _ in range(updates) for shape in range(shapes)
    ]
    return losses[0]


@dataclasses.dataclass(frozen=True)
class _Visits:
    shapes: int
    rounds: int
    at_least: float
    watch: Watch
    say: typing.Callable

    def of(self, workers):
        """Returns for each name and round a list of Visits, one a shape."""
        made = {worker.name: [] for worker in workers}
        # In another order each time, so that none always follows the same.
        order, shuffle = list(workers), random.Random(1).shuffle
        for number in range(self.rounds):
            for worker in workers:
                made[worker.name].append([])
            for shape in range(self.shapes):
                shuffle(order)
                for worker in order:
                    made[worker.name][number].append(
                        _visit(worker, shape, self.at_least, self.watch)
                    )
            self.say(f"round {number + 1} of {self.rounds} done")
        return made


def _visit(worker, shape, at_least, watch):
    return watch.least(lambda: worker.visit(shape, at_least))


def _result(worker, job, first_loss, peak_bytes, rounds):
    weights = [batch.weight for batch in job.batches]
    work = [flops(worker.system.work(job, batch)) for batch in job.batches]
    tokens = [batch.target_tokens for batch in job.batches]
    return Result(
        name=worker.name,
        note=worker.note,
        parameters=worker.parameters,
        first_loss=first_loss if worker.system.trains else None,
        seconds=_means("seconds", rounds, weights),
        cpu_seconds=_means("cpu_seconds", rounds, weights),
        flops=_mean(work, weights),
        tokens=_mean(tokens, weights) if worker.system.trains else None,
        peak_bytes=peak_bytes,
    )


def _means(name, rounds, weights):
    """Returns one number a round, the average over an epoch's batches."""
    return [
        _mean([getattr(visit, name) for visit in visits], weights)
        for visits in rounds
    ]


def _mean(values, weights):
    pairs = zip(values, weights)
    return sum(value * weight for value, weight in pairs) / sum(weights)
