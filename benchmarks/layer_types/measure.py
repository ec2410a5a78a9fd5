"""Runs all layer types in turns, size by size, and keeps what was measured."""

import dataclasses
import itertools
import json
import pathlib
import typing

from benchmarks.harness.report import cpu_name
from benchmarks.harness.turns import (
    NoiseMonitor,
    log,
    repeat_for,
    shuffled_orders,
)
from benchmarks.harness.worker import Worker
from benchmarks.layer_types.memory import MemoryProbe
from export.errors import InputError
from export.files.atomic import written_whole
from export.progress_bar import ProgressBar

_MOST_KEPT = 2**30


class LayerSize(typing.NamedTuple):
    """What a layer is called with.

    Attributes:
        width: d.
        length: n, positions of the one sequence.
        both: forward and backward, or forward alone.
    """

    width: int
    length: int
    both: bool


@dataclasses.dataclass(frozen=True)
class LayerJob:
    """What each process is told to do: of a Worker.

    Attributes:
        cores: threads to use.
        device: "cpu".
    """

    cores: int
    device: str = "cpu"

    def warm_up(self, peer, size):
        """Makes the graph and runs it once."""
        peer.run(size)

    def calls(self, peer, size, at_least):
        """Yields what is timed, for so many seconds at least."""
        return repeat_for(lambda: peer.run(size), at_least)


class Measured(typing.NamedTuple):
    """What was measured of one layer type at one size.

    Attributes:
        seconds: of a call, one a round.
        bytes: that a call takes for itself; None where that is not known.
    """

    seconds: list[float]
    bytes: int | None


class ResultStore:
    """What was measured so far, in a file of JSON lines: one a size.

    The layer types of a line were timed in the same rounds.

    Args:
        path: the file; it need not be there.

    Attributes:
        sizes: dict of LayerSize to a dict of name to Measured.
        noise: dict of LayerSize to how many visits other programs disturbed,
            and how many there were.

    Raises:
        InputError: the file holds something else, or the results of another
            processor.
    """

    def __init__(self, path):
        self._path = pathlib.Path(path)
        self._cpu = cpu_name()
        self.sizes, self.noise = {}, {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._take(line)

    def _take(self, line):
        try:
            fields = json.loads(line)
            cpu = fields.pop("cpu")
            layers = fields.pop("layers")
            noise = fields.pop("disturbed"), fields.pop("visits")
            made = {name: Measured(**each) for name, each in layers.items()}
            size = LayerSize(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{self._path} holds a line that this command did not write "
                f"({line[:40]!r}); remove it, or choose another --output_dir."
            ) from error
        if cpu != self._cpu:
            raise InputError(
                f"{self._path} holds times of another processor, {cpu}, and "
                f"this is {self._cpu}; choose another --output_dir."
            )
        self.sizes[size], self.noise[size] = made, noise

    def add(self, size, made, disturbed, visits):
        """Keeps the Measured of a size, by name, and writes the file."""
        self.sizes[size], self.noise[size] = made, (disturbed, visits)
        with written_whole(self._path) as path:
            path.write_text(
                "".join(map(self._line, self.sizes)), encoding="utf-8"
            )

    def _line(self, size):
        made = self.sizes[size].items()
        layers = {name: each._asdict() for name, each in made}
        disturbed, visits = self.noise[size]
        fields = {
            **size._asdict(),
            "cpu": self._cpu,
            "disturbed": disturbed,
            "visits": visits,
            "layers": layers,
        }
        return json.dumps(fields) + "\n"

    def shorter(self, name, size):
        """Returns the next shorter LayerSize measured and its seconds.

        None where there is none.
        """
        found = [
            (each, min(made[name].seconds))
            for each, made in self.sizes.items()
            if each.length < size.length
            and each == size._replace(length=each.length)
            and name in made
        ]
        return max(found, default=None)


class _Workers:
    """Processes of layer types, started when they are first wanted.

    Args:
        chosen: dict of name to LayerType.
        job: LayerJob.
    """

    def __init__(self, chosen, job):
        self._chosen, self._job = chosen, job
        self._running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self._running:
            self._end(next(iter(self._running)))

    def started(self, names):
        """Returns their Workers; those that hold much memory start anew.

        TensorFlow keeps what it freed, and what all have kept of large sizes
        would not fit the machine.
        """
        for name, worker in list(self._running.items()):
            if worker.peak_bytes() > _MOST_KEPT:
                self._end(name)
        for name in names:
            if name not in self._running:
                log(f"{name}: starting")
                worker = Worker(name, self._chosen[name], self._job)
                self._running[name] = worker.__enter__()
        return [self._running[name] for name in names]

    def _end(self, name):
        self._running.pop(name).__exit__()


@dataclasses.dataclass(frozen=True)
class LayerRun:
    """What is measured, and how.

    Attributes:
        chosen: dict of name to LayerType.
        sizes: list of LayerSize; for each width and kind the shorter first.
        cells: ResultStore.
        job: LayerJob.
        rounds: how often each layer is visited at each size.
        at_least: seconds that a visit takes, at least.
        most_seconds: that a call may take, as the next shorter length has it.
        memory: bytes that a call may take.
        memory_from: the least n whose memory is measured.
        probe: MemoryProbe.
        tries: how often a visit that is disturbed is made, at most.
    """

    chosen: dict
    sizes: list
    cells: ResultStore
    job: LayerJob
    rounds: int
    at_least: float
    most_seconds: float
    memory: int
    memory_from: int
    probe: MemoryProbe
    tries: int

    def run(self):
        """Measures what the file does not hold yet.

        Returns:
            Dict of (name, LayerSize) to why it was left out.

        Raises:
            InputError: a layer failed.
        """
        left_out = {}
        with _Workers(self.chosen, self.job) as workers:
            bar = ProgressBar("Measuring", len(self.sizes), "sizes")
            for size in self.sizes:
                wanted = []
                for name in self.chosen:
                    if reason := self._reason_against(name, size):
                        left_out[name, size] = reason
                    else:
                        wanted.append(name)
                if not set(wanted) <= set(self.cells.sizes.get(size, {})):
                    watch = NoiseMonitor(self.tries)
                    made = self._measured(workers.started(wanted), size, watch)
                    self.cells.add(size, made, watch.disturbed, watch.visits)
                bar.update(1)
        return left_out

    def _measured(self, workers, size, watch):
        taken = {each.name: self._taken(each.system, size) for each in workers}
        for worker in workers:
            worker.warm_up(size)
        seconds = {worker.name: [] for worker in workers}
        for order in itertools.islice(shuffled_orders(workers), self.rounds):
            for worker in order:
                visit = watch.measure(
                    lambda worker=worker: worker.visit(size, self.at_least)
                )
                seconds[worker.name].append(visit.mean)
        return {
            name: Measured(seconds[name], taken[name])
            for name in self.chosen
            if name in taken
        }

    def _taken(self, layer, size):
        if size.length < self.memory_from:
            return None
        return self.probe.taken_bytes(layer, size)

    def _reason_against(self, name, size):
        """Returns why a layer is left out at a size; "" where it is not."""
        if name in self.cells.sizes.get(size, {}):
            return ""
        layer = self.chosen[name]
        scores = layer.score_bytes(size.length, size.width, size.both)
        if scores > self.memory:
            return (
                f"its scores and weights would take {scores / 2**30:.1f} GiB, "
                f"more than {self.memory / 2**30:.1f}"
            )
        shorter = self.cells.shorter(name, size)
        if shorter is None:
            return ""
        before, seconds = shorter
        growth = size.length / before.length
        expected = seconds * (growth**2 if layer.square else growth)
        if expected <= self.most_seconds:
            return ""
        return (
            f"a call would take some {expected:.0f} s, more than "
            f"{self.most_seconds:g}"
        )
