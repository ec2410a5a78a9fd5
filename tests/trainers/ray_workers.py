"""Workers of a Ray cluster on this machine, to kill, and waiting for them."""

import contextlib
import time

import psutil


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
