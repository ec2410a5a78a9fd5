"""Several workers of one cluster on this machine."""

import dataclasses
import json
import pathlib
import socket
import subprocess
import sys

from tests import processes
from tests.trainers import commands


@dataclasses.dataclass
class Worker:
    """A started worker, which writes to files."""

    process: processes.Process | subprocess.Popen
    out_path: pathlib.Path
    err_path: pathlib.Path


def start(*arguments, folders, fresh_chief=False) -> list[Worker]:
    """Starts trainers.wmt in every folder as one cluster, chief first.

    Processes of `tests.processes` are forked; a fresh one has another hash
    seed, and so another order of sets.
    """
    addresses = [f"localhost:{port}" for port in _free_ports(len(folders))]
    return [
        _start(arguments, folder, addresses, number, fresh_chief and not number)
        for number, folder in enumerate(folders)
    ]


def _start(arguments, folder, addresses, number, fresh):
    out, err = (folder / f"worker-{number}.{end}" for end in ("out", "err"))
    task = {"type": "worker", "index": number}
    config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    arguments = [*arguments, "--strategy=multiworker"]
    environment = commands.environment() | {"TF_CONFIG": config}
    with out.open("w") as out_file, err.open("w") as err_file:
        files = {"stdout": out_file, "stderr": err_file}
        if fresh:
            process = subprocess.Popen(
                [sys.executable, "-m", "trainers.wmt", *arguments],
                cwd=folder,
                env=environment,
                **files,
            )
        else:
            process = processes.start(
                commands.WMT, arguments, folder, environment, **files
            )
    return Worker(process, out, err)


def finish(workers) -> list[commands.Result]:
    """Waits for all; returns their results."""
    try:
        for worker in workers:
            worker.process.wait(300)
    finally:
        for worker in workers:
            worker.process.kill()
    return [
        commands.Result(
            worker.process.returncode,
            worker.out_path.read_text(),
            worker.err_path.read_text(),
        )
        for worker in workers
    ]


def _free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
