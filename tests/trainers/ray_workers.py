"""Commands and workers of a Ray cluster to kill, and waiting for them."""

import contextlib
import subprocess
import time

import psutil

from tests import processes


def start(module, *arguments):
    """Starts a command, for `finish`."""
    return processes.start(
        {"module": module}, arguments, stderr=subprocess.PIPE, imported=False
    )


def finish(process, code=0):
    """Waits for a command, which exits with this code; returns its errors."""
    _, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    return err.decode()


def wait_until(holds):
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def kill_busy_ray_worker(task):
    """Kills a worker that runs a task; returns whether there was one."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if f"ray::{task}" in "".join(process.cmdline()):
                process.kill()
                return True
    return False
