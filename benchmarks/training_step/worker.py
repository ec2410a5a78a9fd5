"""A process that holds one system and runs it when told to.

    python -m benchmarks.training_step.worker NAME

The first line it reads is the job; every further line is a question, which
it answers by a line of JSON. It ends when its input does.
"""

import sys

from benchmarks.harness.answering import answer_questions, own_peak_bytes
from benchmarks.harness.timing import visit
from benchmarks.training_step.job import Job
from benchmarks.training_step.systems import systems_on


def main(name):
    """Answers until there are no more lines."""
    answer_questions(lambda *job: _questions(name, *job))


def _questions(name, backend, settings):
    job = Job.from_settings(settings)
    system = systems_on(backend)[name].make(job)
    return {
        "describe": lambda: {
            "parameters": system.parameters,
            "note": system.note,
        },
        "run": lambda shape: system.run(shape),
        "visit": lambda shape, at_least: visit(
            lambda: system.run(shape), at_least
        ),
        "peak": lambda: _peak_bytes(system, job),
    }


def _peak_bytes(system, job):
    if job.device == "gpu":
        return system.peak_gpu_bytes()
    return own_peak_bytes()


if __name__ == "__main__":
    main(sys.argv[1])
