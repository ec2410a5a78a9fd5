"""A process that holds one system and runs it when told to.

    python -m benchmarks.worker NAME

The first line it reads is the job; every further line is a question, which
it answers by a line of JSON. It ends when its input does.
"""

import contextlib
import json
import os
import resource
import sys

from benchmarks.job import Job
from benchmarks.systems import systems_on
from benchmarks.timing import visit


def main(name):
    """Answers until there are no more lines."""
    # Libraries print to standard output too; the pipe is ours alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    backend, settings = json.loads(sys.stdin.readline())
    job = Job.from_settings(settings)
    system = systems_on(backend)[name].make(job)
    asked = {
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
    for line in sys.stdin:
        question, *arguments = json.loads(line)
        print(json.dumps(asked[question](*arguments)), file=answers)


def _peak_bytes(system, job):
    if job.device == "gpu":
        return system.peak_gpu_bytes()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    # Ctrl-C reaches the whole process group; the parent tells the user.
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
