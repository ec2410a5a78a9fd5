"""The parent's side of the processes that translate."""

import typing

from benchmarks.harness.worker import Worker


class DecodeVisit(typing.NamedTuple):
    """All sentences translated once.

    Attributes:
        seconds: a call took on the clock, on average.
        cpu_seconds: processor seconds of a call, of all cores together.
        calls: as many as batches, or one for all of them.
        each: seconds of every call.
    """

    seconds: float
    cpu_seconds: float
    calls: int
    each: list[float]


class DecodeWorker(Worker):
    """One system in a process of its own; use it in a `with` block.

    Args:
        name: of the system.
        system: DecodeSystem.
        backend: of Keras, that the names are of.
        job: DecodeJob.
    """

    module = "benchmarks.decoding.worker"

    def __init__(self, name, system, backend, job):
        self.variables = {"TF_NUM_INTRAOP_THREADS": str(job.cores)}
        super().__init__(name, system, backend, job.settings())

    def _describe(self, about):
        self.note = about

    def warm_up(self, size):
        """Returns text and score of each sentence, in batches of `size`."""
        return [tuple(pair) for pair in self._ask("warm_up", size)]

    def visit(self, size):
        """Returns a DecodeVisit of all sentences in batches of `size`."""
        each, cpu = self._ask("visit", size)
        return DecodeVisit(
            sum(each) / len(each), cpu / len(each), len(each), each
        )
