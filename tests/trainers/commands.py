"""Runs `python -m trainers.wmt`, once or many times in one process."""

import json
import re
import socket

from tests import processes
from tests.processes import ROOT, Result
from tests.processes import user_environment as environment
from tests.trainers import cipher

WMT = {"module": "trainers.wmt"}

# A model so small that a step takes milliseconds.
MINUTE_MODEL = (
    "--set=num_layers=1",
    "--set=d_model=16",
    "--set=d_ff=16",
    "--set=num_heads=2",
    "--set=d_k=8",
    "--set=d_v=8",
)

# And one padded length, so that little is compiled.
MINUTE = (
    f"--source_language={cipher.SOURCE}",
    f"--target_language={cipher.TARGET}",
    "--set=vocabulary_size=64",
    *MINUTE_MODEL,
    "--set=warmup_steps=40",
    "--set=dropout=0.1",
    "--set=max_extra_tokens=4",
    "--set=beam_size=2",
    "--batch_tokens=128",
    "--average_checkpoints=0",
    "--batching=length",
    "--shapes=1",
    # Its search alone takes a second to trace.
    "--attention_steps=0",
)


def wmt_alone(*arguments, folder) -> Result:
    """Runs the command as a user does, imports and all."""
    return processes.run(WMT, arguments, folder, imported=False)


def wmt(*arguments, folder) -> Result:
    """Runs the command in a process of its own, its imports done before."""
    return processes.run(WMT, arguments, folder)


def assert_one_clear_line(result: Result, message: str) -> None:
    """It failed as an InputError does, and said what the pattern says."""
    assert "Traceback" not in result.err
    assert result.code == 2
    line = result.err.rstrip("\n")
    assert "\n" not in line, line
    assert line.startswith("Error: ")
    assert re.search(message, line)


class Worker:
    """A process that runs one command again and again."""

    def __init__(self, module="trainers.wmt") -> None:
        self._module = module
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = processes.start(
                {"module": "tests.trainers.command_worker"},
                [self._module],
                folder=ROOT,
                environment=environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=theirs,
                stdout=theirs,
            )
            self._channel = ours.makefile("rw", encoding="utf-8")

    def run(self, *arguments, folder) -> Result:
        """Runs the command; the same code as in a process of its own."""
        # After a full disk HDF5 may end it.
        if self._process.poll() is not None:
            self._start()
        order = {"arguments": arguments, "folder": str(folder)}
        print(json.dumps(order), file=self._channel, flush=True)
        answer = json.loads(self._channel.readline())
        return Result(answer["code"], answer["out"], answer["err"])

    wmt = run

    def close(self) -> None:
        # It has nothing to lose, and TensorFlow may take its time to exit.
        self._process.kill()
        self._process.wait()
        self._channel.close()
