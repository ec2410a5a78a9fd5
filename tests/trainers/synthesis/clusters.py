"""A Ray cluster of several nodes on one machine, and what dies in it."""

import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from tests.processes import user_environment

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="ray is not installed (requirements-ray.txt)",
)
_SECONDS = 300


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def until(holds, what):
    """Waits for something, for five minutes at most."""
    end = time.monotonic() + _SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


class Cluster:
    """Nodes of one processor each; those who are left end with the block."""

    def __init__(self, nodes):
        self._count = nodes
        self.nodes = []

    def __enter__(self):
        # Ray's sockets need short names.
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="ray"))
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._start(
            "--head",
            f"--port={port}",
            f"--ray-client-server-port={free_port()}",
            "--include-dashboard=false",
            f"--temp-dir={self._folder / 'ray'}",
        )
        for _ in range(self._count - 1):
            self._start(f"--address={self.address}")
        return self

    def _start(self, *flags):
        log = self._folder / f"node{len(self.nodes)}"
        with log.open("wb") as file:
            node = subprocess.Popen(
                [
                    pathlib.Path(sys.executable).with_name("ray"),
                    "start",
                    "--block",
                    "--num-cpus=1",
                    "--object-store-memory=80000000",
                    "--min-worker-port=0",
                    "--max-worker-port=0",
                    *flags,
                ],
                env=user_environment() | {"RAY_USAGE_STATS_ENABLED": "0"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.nodes.append(node)
        until(lambda: b"block forever" in log.read_bytes(), log.read_text())

    def busy_worker(self, node):
        """Returns the process id of one that does a task, or None."""
        for process in descendants(self.nodes[node].pid):
            if command_of(process).startswith("ray::_do"):
                return process
        return None

    def kill_node(self, node):
        """Ends all of a node at once, as a power cut would."""
        gone = [*descendants(self.nodes[node].pid), self.nodes[node].pid]
        for process in gone:
            kill(process)
        self.nodes[node].wait()

    def __exit__(self, *error):
        for node in reversed(range(len(self.nodes))):
            self.kill_node(node)
        shutil.rmtree(self._folder, ignore_errors=True)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def descendants(process):
    """Returns the ids of what a process started, and what those did."""
    children = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in brackets may hold anything.
            parent = path.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(path.parent.name))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def command_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""
