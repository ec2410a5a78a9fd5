import os
import subprocess
import sys

import pytest

from trainers import processes

ASK = "from trainers import processes; print(processes.processor_count())"


def _count_in(prepare):
    return int(
        subprocess.run(
            [sys.executable, "-c", ASK],
            preexec_fn=prepare,
            capture_output=True,
            check=True,
            encoding="ascii",
        ).stdout
    )


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="no affinity here"
)
def test_a_process_confined_to_one_processor_has_one():
    mine = os.sched_getaffinity(0)
    assert processes.processor_count() == len(mine)
    one = {min(mine)}
    assert _count_in(lambda: os.sched_setaffinity(0, one)) == 1


def test_without_affinity_all_of_the_machine_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert processes.processor_count() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processes.processor_count() == 1
