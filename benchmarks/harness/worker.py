"""The parent's side of the processes that hold the systems."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing

from benchmarks.harness.timing import Visit
from export.command import InputError

ROOT = pathlib.Path(__file__).parents[2]
_LAST_LINES = 15


class Worker:
    """One system in a process of its own; use it in a `with` block.

    Systems of one process would share, and disturb, thread pools and memory.

    Args:
        name: of the system.
        system: System.
        backend: of Keras, that the names are of.
        settings: of a Job.
    """

    # What the process runs, and variables of its own.
    module = "benchmarks.training_step.worker"
    variables: typing.ClassVar = {}

    def __init__(self, name, system, backend, settings):
        self.name = name
        self.system = system
        # Closed by __exit__; a pipe that nobody reads would fill up.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module, name],
            cwd=ROOT,
            env=_environment(system, settings) | self.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._tell([backend, settings])
        self._describe(self._ask("describe"))

    def _describe(self, about):
        self.parameters, self.note = about["parameters"], about["note"]

    def run(self, shape):
        """Makes one update; returns its loss."""
        return self._ask("run", shape)

    def visit(self, shape, at_least):
        """Returns a Visit of updates that take at least so many seconds."""
        return Visit(*self._ask("visit", shape, at_least))

    def peak_bytes(self):
        """Returns the most memory it has taken: on the GPU, or all of it."""
        return self._ask("peak")

    def _ask(self, *question):
        self._tell(question)
        answer = self._process.stdout.readline()
        if not answer:
            raise InputError(self._why_it_ended())
        return json.loads(answer)

    def _tell(self, message):
        # Where the process has ended, reading its answer says why.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def _why_it_ended(self):
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().splitlines()[-_LAST_LINES:]
        return "\n".join(
            [
                f"System {self.name} ended with code {code}; leave it out of "
                "--systems, or mend what it said last:",
                *lines,
            ]
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # It holds nothing worth keeping, and TensorFlow takes long to leave.
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()


def _environment(system, settings):
    cores = str(settings["cores"])
    environment = {
        **os.environ,
        "KERAS_BACKEND": system.keras_backend,
        "OMP_NUM_THREADS": cores,
        "TOKENIZERS_PARALLELISM": "false",
        # Several systems wait on the GPU at a time.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if settings["device"] == "cpu":
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return environment
