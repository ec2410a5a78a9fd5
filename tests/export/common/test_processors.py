import os
import subprocess
import sys

import pytest

from export.common import processes


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="no affinity here"
)
def test_the_processors_of_this_process_are_counted():
    mine = os.sched_getaffinity(0)
    assert processes.processor_count() == len(mine)
    ask = "from export.common import processes as p; print(p.processor_count())"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        preexec_fn=lambda: os.sched_setaffinity(0, {min(mine)}),
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) == 1


def test_without_affinity_the_machine_is_counted(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processes.processor_count() == 7
