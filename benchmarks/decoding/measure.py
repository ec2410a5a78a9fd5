"""Runs all systems in turns, beam by beam."""

import contextlib
import dataclasses
import pathlib
import random
import tempfile
import time

from benchmarks.decoding.models import with_beam
from benchmarks.decoding.report import DecodeResult
from benchmarks.decoding.text import Pieces
from benchmarks.decoding.workers import DecodeWorker

# Some libraries' threads wait busily for more work at first.
_PAUSE = 0.3


@dataclasses.dataclass(frozen=True)
class DecodeRun:
    """What is measured, and how.

    Attributes:
        model_dir: path of the model directory.
        beams: list of K.
        sizes: list of sentences in a batch.
        rounds: how often each system visits each size.
        watch: Watch, which sees to it that nothing else is measured.
        say: function of a line that tells how it goes.
    """

    model_dir: str
    beams: list
    sizes: list
    rounds: int
    watch: object
    say: object


def measure_decoders(run, chosen, backend, job):
    """Times every system at every beam and batch size.

    Args:
        run: DecodeRun.
        chosen: dict of name to DecodeSystem.
        backend: of Keras, that the names are of.
        job: DecodeJob whose model, beam and lengths of translations are
            still to be set.

    Returns:
        List of DecodeResult: by beam, by size, in the order of `chosen`.

    Raises:
        InputError: a system failed.
    """
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for beam in run.beams:
            path = pathlib.Path(folder)
            model = with_beam(run.model_dir, beam, path)
            beam_job = dataclasses.replace(
                job,
                model=str(model),
                config={**job.config, "beam_size": beam},
            )
            prepared = {}
            for name, system in chosen.items():
                run.say(f"{name}: preparing, beam {beam}")
                prepared[name] = str(system.prepare(model, path))
            with contextlib.ExitStack() as stack:
                turns = _Turns(run, chosen, backend, stack)
                results += turns.results(beam_job, prepared)
    return results


class _Turns:
    """All systems at one beam."""

    def __init__(self, run, chosen, backend, stack):
        self._run = run
        self._chosen = chosen
        self._backend = backend
        self._stack = stack

    def results(self, job, prepared):
        pieces = Pieces(job.model)
        workers, said = {}, {}
        # Those that only multiply must know how long translations are.
        order = sorted(
            self._chosen, key=lambda name: not self._chosen[name].translates
        )
        for name in order:
            self._run.say(f"{name}: starting and warming up")
            worker = self._start(
                name, dataclasses.replace(job, prepared=prepared[name])
            )
            said[name] = {
                size: worker.warm_up(size) for size in self._run.sizes
            }
            workers[name] = worker
            if not job.target_lengths:
                texts = [text for text, _ in said[name][self._run.sizes[0]]]
                job = dataclasses.replace(
                    job, target_lengths=pieces.lengths(texts)
                )
        visits = self._visits(workers)
        return [
            self._result(job, size, workers[name], said, visits, pieces)
            for size in self._run.sizes
            for name in self._chosen
        ]

    def _start(self, name, job):
        return self._stack.enter_context(
            DecodeWorker(name, self._chosen[name], self._backend, job)
        )

    def _visits(self, workers):
        """Returns for each name and size a list of DecodeVisits, one a round.

        In another order each time, so that none always follows the same.
        """
        visits = {(n, s): [] for n in workers for s in self._run.sizes}
        order, shuffle = list(workers), random.Random(1).shuffle
        for number in range(self._run.rounds):
            for size in self._run.sizes:
                shuffle(order)
                for name in order:
                    visits[name, size].append(self._visit(workers[name], size))
            self._run.say(f"round {number + 1} of {self._run.rounds} done")
        return visits

    def _visit(self, worker, size):
        time.sleep(_PAUSE)
        return self._run.watch.least(lambda: worker.visit(size))

    def _result(self, job, size, worker, said, visits, pieces):
        made = visits[worker.name, size]
        own = said[worker.name][size]
        reference = said[next(n for n in said)][size]
        pairs = list(zip(own, reference))
        return DecodeResult(
            name=worker.name,
            note=worker.note,
            beam=job.config["beam_size"],
            size=size,
            seconds=[sum(visit.each) for visit in made],
            cpu_seconds=[visit.cpu_seconds * visit.calls for visit in made],
            latencies=_latencies(made, len(job.batches(size))),
            sentences=len(job.sentences),
            tokens=sum(job.target_lengths),
            own_tokens=sum(pieces.lengths([text for text, _ in own])),
            same=sum(one[0] == other[0] for one, other in pairs),
            score_error=_score_error(pairs),
            peak_bytes=worker.peak_bytes(),
            translates=worker.system.translates,
        )


def _latencies(visits, batches):
    """Returns the seconds of every call, if each was of one batch."""
    if any(visit.calls != batches for visit in visits):
        return []
    return [second for visit in visits for second in visit.each]


def _score_error(pairs):
    """Returns the largest difference where the text is the same, or None."""
    errors = [
        abs(one[1] - other[1])
        for one, other in pairs
        if one[0] == other[0] and None not in (one[1], other[1])
    ]
    return max(errors, default=None)
