"""Several workers on this machine: TF_CONFIG, free ports, processes."""

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
    """A started worker, which writes to files: nobody must read it."""

    process: processes.Process | subprocess.Popen
    out_path: pathlib.Path
    err_path: pathlib.Path

    def finish(self, seconds=300) -> commands.Result:
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
        return commands.Result(
            self.process.returncode,
            self.out_path.read_text(),
            self.err_path.read_text(),
        )


def start(*arguments, folders, start_chief=processes.start) -> list[Worker]:
    """Starts trainers.wmt in every folder as one cluster, chief first."""
    addresses = [f"localhost:{port}" for port in _free_ports(len(folders))]
    return [
        _start_one(
            processes.start if number else start_chief,
            arguments,
            folder,
            addresses,
            number,
        )
        for number, folder in enumerate(folders)
    ]


def alone(command, arguments, folder, environment, stdout, stderr):
    """As `processes.start`, imports and all."""
    return subprocess.Popen(
        [sys.executable, "-m", command["module"], *arguments],
        cwd=folder,
        env=environment,
        stdout=stdout,
        stderr=stderr,
    )


def _start_one(starter, arguments, folder, addresses, number):
    out, err = (folder / f"worker-{number}.{end}" for end in ("out", "err"))
    task = {"type": "worker", "index": number}
    config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    with out.open("w") as out_file, err.open("w") as err_file:
        process = starter(
            commands.WMT,
            [*arguments, "--strategy=multiworker"],
            folder,
            commands.environment() | {"TF_CONFIG": config},
            stdout=out_file,
            stderr=err_file,
        )
    return Worker(process, out, err)


def finish(workers) -> list[commands.Result]:
    """Waits for all; returns how each ended, in the same order."""
    try:
        return [worker.finish() for worker in workers]
    finally:
        for worker in workers:
            worker.process.kill()


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
