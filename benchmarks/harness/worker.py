"""A system in a process of its own: both ends of the pipe to it.

    python -m benchmarks.harness.worker NAME DESCRIPTOR

The process gets a job and a system through the pipe that the descriptor is
of, makes what runs it, and answers questions until the other end is closed.
The name is for who lists processes.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from benchmarks.harness.turns import timed
from export.errors import InputError

ROOT = pathlib.Path(__file__).parents[2]
_LAST_LINES = 15
# Of a framework's module: the most bytes its tensors took on the GPU.
_GPU_PEAKS = {
    "tensorflow": lambda tensorflow: (
        tensorflow.config.experimental.get_memory_info("GPU:0")["peak"]
    ),
    "jax": lambda jax: jax.local_devices()[0].memory_stats()[
        "peak_bytes_in_use"
    ],
    "torch": lambda torch: torch.cuda.max_memory_allocated(),
}


class Worker:
    """One system in a process of its own; use it in a `with` block.

    Systems of one process would share, and disturb, thread pools and memory.

    Args:
        name: of the system.
        system: System.
        job: what the process is told to do: a picklable object with
            `device`, "cpu" or "gpu"; `cores`, threads to use on a CPU;
            `warm_up(peer, *what)`, whose result comes back; and
            `calls(peer, *what)`, which are timed. A peer is what
            `system.make(job)` returns.
        variables: of its environment, beside those that all have.

    Attributes:
        name: of the system.
        system: System.
        note: what it runs on.
        parameters: trained numbers, or None where it is no model.

    Raises:
        InputError: the process ended; so do all methods.
    """

    def __init__(self, name, system, job, variables=()):
        self.name = name
        self.system = system
        self._job = job
        self._environment = _environment(system, job) | dict(variables)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            # Not a pipe: one that nobody reads would fill up.
            self._said = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._connection = stack.enter_context(self._start())
            # It holds nothing worth keeping, and TensorFlow takes long to
            # leave.
            stack.callback(self._process.wait)
            stack.callback(self._process.kill)
            self._tell(self._job, self.system)
            self.note, self.parameters = self._ask("describe")
            self._close = stack.pop_all().close
        return self

    def __exit__(self, *_):
        self._close()

    def _start(self):
        """Starts the process; returns our end of its pipe."""
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "benchmarks.harness.worker"),
                    *(self.name, str(theirs.fileno())),
                ],
                cwd=ROOT,
                env=self._environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
            )
        return ours

    def warm_up(self, *what):
        """Returns what the job's `warm_up` returns there."""
        return self._ask("warm_up", *what)

    def visit(self, *what):
        """Returns a Visit: how long each of the job's `calls` took."""
        return self._ask("visit", *what)

    def peak_bytes(self):
        """Returns the most memory it has taken: on the GPU, or all of it."""
        return self._ask("peak_bytes")

    def _ask(self, *question):
        self._tell(*question)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError):
            raise InputError(self._why_it_ended()) from None

    def _tell(self, *message):
        # Where the process has ended, reading its answer says why.
        with contextlib.suppress(ConnectionError):
            self._connection.send(message)

    def _why_it_ended(self):
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().splitlines()[-_LAST_LINES:]
        return "\n".join(
            [
                f"System {self.name} ended with code {code}; leave it out of "
                "--systems, or mend what it said last:",
                *lines,
            ]
        )


def _environment(system, job):
    environment = {
        **os.environ,
        "KERAS_BACKEND": system.keras_backend,
        "OMP_NUM_THREADS": str(job.cores),
        "TOKENIZERS_PARALLELISM": "false",
        # Several systems wait on the GPU at a time.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if job.device == "cpu":
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    return environment


def main(descriptor):
    """Is the process: answers until there are no more questions."""
    # Ctrl-C reaches the whole process group; the parent tells the user.
    with contextlib.suppress(KeyboardInterrupt):
        connection = multiprocessing.connection.Connection(int(descriptor))
        job, system = connection.recv()
        peer = system.make(job)
        answers = {
            "describe": lambda: (peer.note, getattr(peer, "parameters", None)),
            "warm_up": lambda *what: job.warm_up(peer, *what),
            "visit": lambda *what: timed(job.calls(peer, *what)),
            "peak_bytes": lambda: _peak_bytes(peer, job.device),
        }
        for question, *what in _received(connection):
            connection.send(answers[question](*what))


def _received(connection):
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            yield connection.recv()


def _peak_bytes(peer, device):
    framework = getattr(peer, "framework", None)
    if device == "gpu" and framework:
        return _GPU_PEAKS[framework](sys.modules[framework])
    return peak_memory()


def peak_memory():
    """Returns the most memory that was resident since this program began.

    That of `getrusage` begins with what the parent had at the fork.
    """
    try:
        return _resident_bytes("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def current_memory():
    """Returns the memory that is resident now; None where none can say."""
    try:
        return _resident_bytes("VmRSS")
    except OSError:
        return None


def _resident_bytes(name):
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [row for row in status.splitlines() if row.startswith(name)]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[2])
