"""Runs a system in a worker process, connected by a pipe.

The process receives a job and a system, makes the peer that runs the system,
and answers requests until the pipe is closed.
"""

import contextlib
import dataclasses
import importlib.util
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pkgutil
import subprocess
import sys
import tempfile
import time
import typing

from export.common.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
_LAST_LINES = 15
# Arguments: the system's name, for process lists, and the pipe.
_MAIN = "from benchmarks.harness.worker import main; main()"
# Each framework's peak of GPU memory, given its module.
_GPU_PEAKS = {
    "tensorflow": lambda tensorflow: (
        tensorflow.config.experimental.get_memory_info("GPU:0")["peak"]
    ),
    "jax": lambda jax: jax.local_devices()[0].memory_stats()[
        "peak_bytes_in_use"
    ],
    "torch": lambda torch: torch.cuda.max_memory_allocated(),
}


@dataclasses.dataclass(frozen=True)
class System:
    """A system to time: how to create it, and its requirements.

    `maker` is "module:function" in benchmarks.peers, a function of a job and
    `options` that returns a peer. A peer has a `note` on its software,
    `parameters` if it is a model, and `framework` if that reports GPU memory.
    `packages` are required besides the Keras backend, separated by spaces.
    `keras_backend` is None for that of the run.
    """

    maker: str
    packages: str = ""
    keras_backend: str | None = None
    options: dict = dataclasses.field(default_factory=dict)

    def make(self, job):
        maker = pkgutil.resolve_name(f"benchmarks.peers.{self.maker}")
        return maker(job, **self.options)

    def missing_package(self):
        """Returns the name of a package that is not installed, or None."""
        for package in (self.keras_backend, *self.packages.split()):
            if importlib.util.find_spec(package) is None:
                return package
        return None


def select_systems(tables, backend, names):
    """Returns a dict of name to System, with `keras_backend` set.

    `tables` maps each Keras backend to a dict of name to System. No `names`
    means all systems whose packages are installed.
    """
    if backend not in tables:
        raise InputError(
            f"KERAS_BACKEND={backend} is not supported here; set it to "
            f"{' or '.join(tables)}."
        )
    known = {
        name: dataclasses.replace(
            each, keras_backend=each.keras_backend or backend
        )
        for name, each in tables[backend].items()
    }
    names = names or [
        name for name, each in known.items() if each.missing_package() is None
    ]
    for name in names:
        if name not in known:
            raise InputError(
                f"There is no system {name!r} on {backend}; there are: "
                f"{', '.join(known)}."
            )
        if missing := known[name].missing_package():
            raise InputError(
                f"System {name} needs the package {missing}; install "
                "requirements-bench.txt, or remove it from --systems."
            )
    return {name: known[name] for name in names}


class Timing(typing.NamedTuple):
    """Wall-clock seconds of each call, and CPU seconds of all calls."""

    each: list[float]
    cpu_seconds: float

    @property
    def seconds(self):
        """Wall-clock seconds of all calls."""
        return sum(self.each)

    @property
    def mean(self):
        """Wall-clock seconds per call."""
        return self.seconds / len(self.each)


def timed(calls):
    """Makes calls in order; returns their Timing."""
    cpu, each = time.process_time(), []
    for call in calls:
        started = time.perf_counter()
        call()
        each.append(time.perf_counter() - started)
    return Timing(each, time.process_time() - cpu)


def repeat_for(call, seconds):
    """Yields a function at least once, for a number of seconds."""
    end = time.perf_counter() + seconds
    yield call
    while time.perf_counter() < end:
        yield call


class Worker:
    """A system in its own process, as a context manager.

    In one process, systems would share thread pools and memory. `job` is a
    picklable object with `device`, "cpu" or "gpu"; `cores`, threads to use on a
    CPU; `warm_up(peer, *arguments)`, whose result is returned; and
    `calls(peer, *arguments)`, an iterable of functions to time. All methods
    raise InputError if the process ended.
    """

    def __init__(self, name, system, job):
        self.name, self.system, self._job = name, system, job

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            # A pipe that is not read would fill up.
            self._output = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._connection = stack.enter_context(self._start())
            # Killed, because TensorFlow exits slowly; nothing is lost.
            stack.callback(self._process.wait)
            stack.callback(self._process.kill)
            self._send(self._job, self.system)
            self.note, self.parameters = self._ask("describe")
            self._close = stack.pop_all().close
        return self

    def __exit__(self, *_):
        self._close()

    def _start(self):
        """Starts the process; returns the parent's end of its pipe."""
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, self.name, str(theirs.fileno())],
                cwd=ROOT,
                env=_environment(self.system, self._job),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        return ours

    def warm_up(self, *arguments):
        """Returns the result of the job's `warm_up`."""
        return self._ask("warm_up", *arguments)

    def time(self, *arguments):
        """Returns the Timing of the job's `calls`."""
        return self._ask("time", *arguments)

    def peak_bytes(self):
        """Returns the peak of GPU memory, or else of resident memory."""
        return self._ask("peak_bytes")

    def _ask(self, *question):
        self._send(*question)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError):
            raise InputError(self._failure()) from None

    def _send(self, *message):
        # If the process has ended, receiving its answer raises the error.
        with contextlib.suppress(ConnectionError):
            self._connection.send(message)

    def _failure(self):
        code = self._process.wait()
        self._output.seek(0)
        lines = self._output.read().splitlines()[-_LAST_LINES:]
        return "\n".join(
            [f"System {self.name} ended with code {code}. It wrote:", *lines]
        )


def _environment(system, job):
    environment = {
        **os.environ,
        "KERAS_BACKEND": system.keras_backend,
        "OMP_NUM_THREADS": str(job.cores),
        "TF_NUM_INTRAOP_THREADS": str(job.cores),
        "TOKENIZERS_PARALLELISM": "false",
        # Several systems share the GPU.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if job.device == "cpu":
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return environment


def main():
    """Runs the worker process until the pipe is closed."""
    # Ctrl-C reaches the whole process group; the parent reports it.
    with contextlib.suppress(KeyboardInterrupt):
        connection = multiprocessing.connection.Connection(int(sys.argv[2]))
        job, system = connection.recv()
        peer = system.make(job)
        answers = {
            "describe": lambda: (peer.note, getattr(peer, "parameters", None)),
            "warm_up": lambda *given: job.warm_up(peer, *given),
            "time": lambda *given: timed(job.calls(peer, *given)),
            "peak_bytes": lambda: _peak_bytes(peer, job.device),
        }
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                question, *given = connection.recv()
                connection.send(answers[question](*given))


def _peak_bytes(peer, device):
    framework = getattr(peer, "framework", None)
    if device == "gpu" and framework:
        return _GPU_PEAKS[framework](sys.modules[framework])
    return peak_memory()


def peak_memory(field="VmHWM"):
    """Returns this process's peak resident memory in bytes, on Linux.

    `getrusage` would include the parent's memory at the fork.
    """
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [row for row in status.splitlines() if row.startswith(field)]
    return int(line.split()[1]) * 1024
