"""What every worker process does: read questions, answer each by a line."""

import contextlib
import json
import os
import pathlib
import resource
import sys


def answer_questions(prepare):
    """Answers lines of JSON from standard input until there are no more.

    The first line is a pair: the backend and the job's settings. Each further
    one is a list: a question's name, and what it is asked with.

    Args:
        prepare: function (backend, settings) -> dict, name of a question to
            the function that answers it.
    """
    # Libraries print to standard output too; the pipe is ours alone.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # Ctrl-C reaches the whole process group; the parent tells the user.
    with contextlib.suppress(KeyboardInterrupt):
        asked = prepare(*json.loads(sys.stdin.readline()))
        for line in sys.stdin:
            question, *arguments = json.loads(line)
            print(json.dumps(asked[question](*arguments)), file=answers)


def own_peak_bytes():
    """Returns the most memory that was resident since this program began.

    That of `getrusage` begins with what the parent had at the fork.
    """
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (line,) = [row for row in status.splitlines() if row.startswith("VmHWM")]
    return int(line.split()[1]) * 1024
