"""A Ray cluster of several nodes on one machine, and how to kill them."""

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

import psutil
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


def wait_until(holds, what):
    """Waits until a function returns something true; returns that."""
    end = time.monotonic() + _SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


class Cluster:
    """Nodes of one CPU each, which end with the block."""

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
                    *("start", "--block", "--num-cpus=1"),
                    "--object-store-memory=80000000",
                    *("--min-worker-port=0", "--max-worker-port=0"),
                    *flags,
                ],
                env=user_environment() | {"RAY_USAGE_STATS_ENABLED": "0"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.nodes.append(node)
        wait_until(lambda: b"block forever" in log.read_bytes(), "a node")

    def busy_worker(self, node):
        """Returns the process id of one that does a task, or None."""
        for process in psutil.Process(self.nodes[node].pid).children(True):
            with contextlib.suppress(psutil.Error):
                if "ray::_translate" in "".join(process.cmdline()):
                    return process.pid
        return None

    def kill_node(self, node):
        """Kills a node with all its processes, as a power cut would."""
        parent = psutil.Process(self.nodes[node].pid)
        for process in (*parent.children(True), parent):
            kill(process.pid)
        self.nodes[node].wait()

    def __exit__(self, *error):
        for node in reversed(range(len(self.nodes))):
            if self.nodes[node].poll() is None:
                self.kill_node(node)
        shutil.rmtree(self._folder, ignore_errors=True)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
