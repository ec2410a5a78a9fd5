"""Runs all systems in turns, beam by beam."""

import contextlib
import dataclasses
import pathlib
import tempfile
import time

from benchmarks.decoding.job import DecodeJob, SentencePieces
from benchmarks.decoding.report import DecodeResult
from benchmarks.decoding.systems import with_beam
from benchmarks.harness.turns import NoiseMonitor, log, time_in_turns
from benchmarks.harness.worker import Worker

# Some libraries' threads wait busily for more work at first.
_PAUSE = 0.3


@dataclasses.dataclass(frozen=True)
class DecodeRun:
    """What is measured, and how.

    Attributes:
        chosen: dict of name to DecodeSystem.
        job: DecodeJob whose beam and lengths of translations are still to be
            set.
        beams: list of K.
        sizes: list of sentences in a batch.
        rounds: how often each system visits each size.
        watch: NoiseMonitor, which sees to it that nothing else is measured.
    """

    chosen: dict
    job: DecodeJob
    beams: list
    sizes: list
    rounds: int
    watch: NoiseMonitor

    def results(self):
        """Times every system at every beam and batch size.

        Returns:
            List of DecodeResult: by beam, by size, in the order of `chosen`.

        Raises:
            InputError: a system failed.
        """
        results = []
        with tempfile.TemporaryDirectory() as folder:
            for beam in self.beams:
                path = pathlib.Path(folder)
                model = with_beam(self.job.model, beam, path)
                job = dataclasses.replace(
                    self.job,
                    model=str(model),
                    config={**self.job.config, "beam_size": beam},
                )
                prepared = {}
                for name, system in self.chosen.items():
                    log(f"{name}: preparing, beam {beam}")
                    prepared[name] = str(system.prepare(model, path))
                results += self._at_one_beam(job, prepared)
        return results

    def _at_one_beam(self, job, prepared):
        workers, said = {}, {}
        # Those that only multiply must know how long translations are.
        order = sorted(
            self.chosen, key=lambda name: not self.chosen[name].translates
        )
        with contextlib.ExitStack() as stack:
            for name in order:
                log(f"{name}: starting and warming up")
                own_job = dataclasses.replace(job, prepared=prepared[name])
                workers[name] = stack.enter_context(
                    _worker(name, self.chosen[name], own_job)
                )
                said[name] = {
                    size: workers[name].warm_up(size) for size in self.sizes
                }
                if not job.target_lengths:
                    texts = [text for text, _ in said[name][self.sizes[0]]]
                    job = dataclasses.replace(
                        job,
                        target_lengths=SentencePieces(job.model).lengths(texts),
                    )
            visits = time_in_turns(
                workers.values(), self.sizes, self.rounds, self._visit
            )
            return [
                _result(
                    job,
                    size,
                    workers[name],
                    visits[name, size],
                    said[name][size],
                    said[order[0]][size],
                )
                for size in self.sizes
                for name in self.chosen
            ]

    def _visit(self, worker, size):
        time.sleep(_PAUSE)
        return self.watch.measure(lambda: worker.visit(size))


def _worker(name, system, job):
    return Worker(name, system, job, {"TF_NUM_INTRAOP_THREADS": str(job.cores)})


def _result(job, size, worker, visits, own, reference):
    """Makes one DecodeResult.

    Args:
        job: DecodeJob of the beam.
        size: sentences in a batch.
        worker: Worker.
        visits: list of Visit, one a round.
        own: list of its (text, score), one for each sentence.
        reference: the same of the first system.
    """
    pairs = list(zip(own, reference))
    own_lengths = SentencePieces(job.model).lengths([text for text, _ in own])
    return DecodeResult(
        name=worker.name,
        note=worker.note,
        beam=job.config["beam_size"],
        size=size,
        seconds=[visit.seconds for visit in visits],
        cpu_seconds=[visit.cpu_seconds for visit in visits],
        latencies=_latencies(visits, len(job.batches(size))),
        sentences=len(job.sentences),
        tokens=sum(job.target_lengths),
        own_tokens=sum(own_lengths),
        same=sum(one[0] == other[0] for one, other in pairs),
        score_error=_score_error(pairs),
        peak_bytes=worker.peak_bytes(),
        translates=worker.system.translates,
    )


def _latencies(visits, batches):
    """Returns the seconds of every call, if each was of one batch."""
    if any(len(visit.each) != batches for visit in visits):
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
