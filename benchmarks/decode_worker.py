"""A process that holds one system and translates when told to.

    python -m benchmarks.decode_worker NAME

The first line it reads is the job; every further line is a question, which
it answers by a line of JSON. It ends when its input does.
"""

import contextlib
import json
import os
import pathlib
import resource
import sys
import time

from benchmarks.decode_job import DecodeJob
from benchmarks.decode_systems import decode_systems_on


def main(name):
    """Answers until there are no more lines."""
    # Libraries print to standard output too; the pipe is ours alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    backend, settings = json.loads(sys.stdin.readline())
    job = DecodeJob(**settings)
    system = decode_systems_on(backend)[name].make(job)
    asked = {
        "describe": lambda: system.note,
        "warm_up": lambda size: _translations(system, job.batches(size)),
        "visit": lambda size: _visit(system, job.batches(size)),
        "peak": lambda: _peak_bytes(system, job),
    }
    for line in sys.stdin:
        question, *arguments = json.loads(line)
        print(json.dumps(asked[question](*arguments)), file=answers)


def _translations(system, batches):
    translate = getattr(system, "translate_with_scores", system.translate)
    return [pair for batch in batches for pair in translate(batch)]


def _visit(system, batches):
    """Returns the seconds of each batch, and all cores' seconds of them."""
    cpu, seconds = time.process_time(), []
    for batch in batches:
        started = time.perf_counter()
        system.translate(batch)
        seconds.append(time.perf_counter() - started)
    return seconds, time.process_time() - cpu


def _peak_bytes(system, job):
    if job.device == "gpu" and hasattr(system, "peak_gpu_bytes"):
        return system.peak_gpu_bytes()
    return _own_peak_bytes()


def _own_peak_bytes():
    """Returns the peak since this program began.

    That of `getrusage` begins with what the parent had at the fork.
    """
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (line,) = [row for row in status.splitlines() if row.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    # Ctrl-C reaches the whole process group; the parent tells the user.
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
