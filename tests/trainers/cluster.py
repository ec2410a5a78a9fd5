"""Several workers on this machine: TF_CONFIG, free ports, processes."""

import contextlib
import dataclasses
import json
import pathlib
import socket

from tests import processes
from tests.trainers import commands


@dataclasses.dataclass
class Worker:
    """A started worker, which writes to files: nobody must read it."""

    process: processes.ForkedProcess
    out_path: pathlib.Path
    err_path: pathlib.Path


def start(*arguments, folders) -> list[Worker]:
    """Starts trainers.wmt in every folder as one cluster, chief first."""
    addresses = [f"localhost:{port}" for port in _free_ports(len(folders))]
    workers = []
    for index, folder in enumerate(folders):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        out, err = (folder / f"worker-{index}.{end}" for end in ("out", "err"))
        with out.open("w") as out_file, err.open("w") as err_file:
            process = processes.start(
                commands.WMT,
                [*arguments, "--strategy=multiworker"],
                folder,
                commands.environment() | {"TF_CONFIG": config},
                stdout=out_file,
                stderr=err_file,
            )
        workers.append(Worker(process, out, err))
    return workers


def finish(workers) -> list[commands.Result]:
    """Waits for all; returns how each ended, in the same order."""
    try:
        return [
            commands.Result(
                each.process.wait(300),
                each.out_path.read_text(),
                each.err_path.read_text(),
            )
            for each in workers
        ]
    finally:
        for worker in workers:
            worker.process.kill()


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("localhost", 0)))
            for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]
