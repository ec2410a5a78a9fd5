"""Several workers on this machine: TF_CONFIG, free ports, processes."""

import dataclasses
import json
import pathlib
import socket
import subprocess

from tests import processes
from tests.trainers import commands


@dataclasses.dataclass
class Worker:
    """A started worker, which writes to files: nobody must read it."""

    process: processes.ForkedProcess | subprocess.Popen
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


def start(*arguments, folders, imported=True) -> list[Worker]:
    """Starts trainers.wmt in every folder as one cluster, chief first.

    With imported=False the chief is as a user starts it, imports and all.
    """
    addresses = [f"localhost:{port}" for port in _free_ports(len(folders))]
    return [
        _start_one(
            arguments,
            folder,
            addresses,
            number,
            imported or number > 0,
        )
        for number, folder in enumerate(folders)
    ]


def _start_one(arguments, folder, addresses, number, imported):
    out, err = (folder / f"worker-{number}.{end}" for end in ("out", "err"))
    task = {"type": "worker", "index": number}
    config = json.dumps({"cluster": {"worker": addresses}, "task": task})
    with out.open("w") as out_file, err.open("w") as err_file:
        process = processes.start(
            commands.WMT,
            [*arguments, "--strategy=multiworker"],
            folder,
            commands.environment() | {"TF_CONFIG": config},
            stdout=out_file,
            stderr=err_file,
            imported=imported,
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
