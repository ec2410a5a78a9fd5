"""Commands as processes of their own, started without their imports.

`tests.process_server` says how: a process with TensorFlow takes some tenths
of a second of computing instead of four. Where the imports themselves, or
what they print, is tested, use `subprocess`.
"""

import dataclasses
import functools
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
# None defines absl flags, which would be flags of every command.
WITH_TENSORFLOW = (
    "absl.app",
    "h5py",
    "tensorflow",
    "tensorflow_text",
    "keras",
    "sentencepiece",
    "sacrebleu",
    "tqdm",
)


# TensorFlow says these before its log level counts.
_NOISE = re.compile(
    r"(WARNING: All log messages before|[IWE]0000 |To enable the follow).*\n?"
)


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended.

    Attributes:
        code: exit code.
        out: its standard output.
        err: its standard error, without TensorFlow's start-up notes.
        raw_err: its standard error.
    """

    code: int
    out: str
    raw_err: str

    @property
    def err(self) -> str:
        return _NOISE.sub("", self.raw_err)


class Process:
    """A started process: what tests use of subprocess.Popen."""

    def __init__(self, status):
        # Unbuffered: what `select` waits for must not have been read.
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = int(self._status.readline())
        self.returncode = None

    def poll(self):
        """Returns the exit code, or None while it runs."""
        return self._ended(0)

    def wait(self, timeout=None):
        """Returns the exit code; TimeoutError after so many seconds."""
        if self._ended(timeout) is None:
            raise TimeoutError(f"process {self.pid} has not ended")
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout):
        if self.returncode is None:
            ready, _, _ = select.select([self._status], [], [], timeout)
            if ready:
                code = int(self._status.readline())
                self.returncode = os.waitstatus_to_exitcode(code)
                self._status.close()
        return self.returncode


class ProcessServer:
    """Starts processes that have imported some modules already."""

    def __init__(self, modules):
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.process_server"]
                + [str(theirs.fileno()), *modules],
                cwd=ROOT,
                # A fork takes one thread along.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                # Its descriptors are of the kind that its processes' are.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def start(self, command, arguments, folder, environment, descriptors):
        """Starts a process; see `start` below."""
        status, told = os.pipe()
        order = command | {
            "arguments": [*map(str, arguments)],
            "folder": str(folder),
            "environment": environment,
        }
        content = json.dumps(order).encode() + b"\n"
        sent = socket.send_fds(self._channel, [content], [*descriptors, told])
        self._channel.sendall(content[sent:])
        os.close(told)
        return Process(status)

    def close(self):
        self._channel.close()
        with self._process:
            pass


@functools.cache
def server(modules):
    """The one of these modules, started when it is first asked for."""
    made = ProcessServer(modules)
    _servers.append(made)
    return made


_servers = []


def close_servers():
    while _servers:
        _servers.pop().close()
    server.cache_clear()


def user_environment() -> dict[str, str]:
    """A user's environment: nothing of the test run's own settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TF_", "PYTHONWARNINGS"))
    }
    return kept | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}


def start(
    command,
    arguments,
    folder=ROOT,
    environment=None,
    stdin=None,
    stdout=None,
    stderr=None,
    modules=WITH_TENSORFLOW,
):
    """Starts a command in a process of its own; returns its Process.

    Args:
        command: {"module": as of `python -m`} or {"path": of a script}.
        arguments: after the command's name.
        folder: where it runs.
        environment: all of its variables; `user_environment` by default.
        stdin, stdout, stderr: what has a fileno, or None, which is nothing.
        modules: what it has imported before it starts.
    """
    with pathlib.Path(os.devnull).open("r+b", buffering=0) as nothing:
        return server(modules).start(
            command,
            arguments,
            folder,
            environment or user_environment(),
            [(each or nothing).fileno() for each in (stdin, stdout, stderr)],
        )


def run(
    command,
    arguments,
    folder=ROOT,
    environment=None,
    source=b"",
    modules=WITH_TENSORFLOW,
    timeout=300,
):
    """Runs a command to its end; `source` is what it reads."""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(source)
        stdin.seek(0)
        process = start(
            command,
            arguments,
            folder,
            environment,
            stdin,
            stdout,
            stderr,
            modules,
        )
        try:
            code = process.wait(timeout)
        except TimeoutError:
            process.kill()
            process.wait()
            raise
        return Result(code, _content(stdout), _content(stderr))


def _content(file):
    file.seek(0)
    return file.read().decode("utf-8")
