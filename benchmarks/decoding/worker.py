"""A process that holds one system and translates when told to.

    python -m benchmarks.decoding.worker NAME

The first line it reads is the job; every further line is a question, which
it answers by a line of JSON. It ends when its input does.
"""

import sys
import time

from benchmarks.decoding.job import DecodeJob
from benchmarks.decoding.systems import decode_systems_on
from benchmarks.harness.answering import answer_questions, own_peak_bytes


def main(name):
    """Answers until there are no more lines."""
    answer_questions(lambda *job: _questions(name, *job))


def _questions(name, backend, settings):
    job = DecodeJob(**settings)
    system = decode_systems_on(backend)[name].make(job)
    return {
        "describe": lambda: system.note,
        "warm_up": lambda size: _translations(system, job.batches(size)),
        "visit": lambda size: _visit(system, job.batches(size)),
        "peak": lambda: _peak_bytes(system, job),
    }


def _translations(system, batches):
    translate = getattr(system, "translate_with_scores", system.translate)
    return [pair for batch in batches for pair in translate(batch)]


def _visit(system, batches):
    """Returns the seconds of each call, and all cores' seconds of them."""
    translate, asked = system.translate, batches
    if hasattr(system, "translate_all"):
        translate, asked = system.translate_all, [batches]
    cpu, seconds = time.process_time(), []
    for each in asked:
        started = time.perf_counter()
        translate(each)
        seconds.append(time.perf_counter() - started)
    return seconds, time.process_time() - cpu


def _peak_bytes(system, job):
    if job.device == "gpu" and hasattr(system, "peak_gpu_bytes"):
        return system.peak_gpu_bytes()
    return own_peak_bytes()


if __name__ == "__main__":
    main(sys.argv[1])
