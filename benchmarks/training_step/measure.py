"""Runs all systems in turns, batch by batch."""

import collections
import contextlib
import dataclasses
import functools
from concurrent import futures

from benchmarks.harness.turns import (
    Watch,
    new_orders,
    say,
    say_round,
    visits_in_turns,
)
from benchmarks.harness.worker import Worker
from benchmarks.training_step.job import StepJob
from benchmarks.training_step.report import StepResult
from trainers.cost.flops import flops


@dataclasses.dataclass(frozen=True)
class StepRun:
    """What is measured, and how.

    Attributes:
        chosen: dict of name to StepSystem.
        job: StepJob.
        rounds: how often each system visits each batch.
        warm_up: updates on each batch before any is timed, at least 1.
        at_least: seconds that a visit takes, at least.
        watch: Watch, which sees to it that nothing else is measured.
    """

    chosen: dict
    job: StepJob
    rounds: int
    warm_up: int
    at_least: float
    watch: Watch

    @property
    def _shapes(self):
        return range(len(self.job.batches))

    def together(self):
        """Times every system on every batch, round by round, all in memory.

        Returns:
            List of StepResult, in the order of `chosen`.

        Raises:
            InputError: a system failed.
        """
        with contextlib.ExitStack() as stack:
            started = self._started(stack).values()
            visits = visits_in_turns(
                [worker for worker, _ in started],
                self._shapes,
                self.rounds,
                self._visit,
            )
            return [
                self._result(worker, loss, worker.peak_bytes(), visits)
                for worker, loss in started
            ]

    def _started(self, stack):
        """Returns a dict of name to a Worker and its first loss, in order."""
        names = list(self.chosen)
        # On a GPU XLA chooses kernels by their time, and must be alone then;
        # PyTorch's compiler does not.
        at_once = [name for name in names if self._may_share_gpu(name)]
        start = functools.partial(self._start, stack)
        started = {name: start(name) for name in names if name not in at_once}
        with futures.ThreadPoolExecutor(len(names)) as pool:
            started |= zip(at_once, pool.map(start, at_once))
        return {name: started[name] for name in names}

    def _may_share_gpu(self, name):
        gpu = self.job.device == "gpu"
        return gpu and self.chosen[name].keras_backend == "torch"

    def _start(self, stack, name):
        say(f"{name}: starting and warming up")
        worker = stack.enter_context(self._worker(name))
        return worker, self._first_loss(worker)

    def alone(self):
        """Does what `together` does with one system in memory at a time.

        Each is started anew, and warmed up, in every round.
        """
        visits, known = collections.defaultdict(list), {}
        for number, order in zip(range(self.rounds), new_orders(self.chosen)):
            for name in order:
                with self._worker(name) as worker:
                    loss = self._first_loss(worker)
                    for shape in self._shapes:
                        visits[name, shape].append(self._visit(worker, shape))
                    known[name] = worker, loss, worker.peak_bytes()
            say_round(number, self.rounds)
        return [self._result(*known[name], visits) for name in self.chosen]

    def _worker(self, name):
        return Worker(name, self.chosen[name], self.job)

    def _first_loss(self, worker):
        losses = [
            worker.warm_up(shape)
            for _ in range(self.warm_up)
            for shape in self._shapes
        ]
        return losses[0]

    def _visit(self, worker, shape):
        return self.watch.least(lambda: worker.visit(shape, self.at_least))

    def _result(self, worker, first_loss, peak_bytes, visits):
        job, batches = self.job, self.job.batches
        work = [flops(worker.system.work(job, batch)) for batch in batches]
        # A list for each round: its visits, one a batch.
        rounds = list(
            zip(*(visits[worker.name, shape] for shape in self._shapes))
        )
        return StepResult(
            name=worker.name,
            note=worker.note,
            parameters=worker.parameters,
            first_loss=first_loss,
            seconds=[
                _mean([visit.mean for visit in made], batches)
                for made in rounds
            ],
            cpu_seconds=[
                _mean([visit.mean_cpu for visit in made], batches)
                for made in rounds
            ],
            flops=_mean(work, batches),
            tokens=_mean([batch.target_tokens for batch in batches], batches),
            peak_bytes=peak_bytes,
        )


def _mean(values, batches):
    """Returns the average over an epoch's batches of one number a batch."""
    weights = [batch.weight for batch in batches]
    pairs = zip(values, weights)
    return sum(value * weight for value, weight in pairs) / sum(weights)
