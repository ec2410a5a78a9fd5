"""Commands as processes of their own.

Importing TensorFlow takes a process four seconds of computing. So most are
forked by multiprocessing's fork server, which has imported it already. Where
the imports themselves, or what they print, is tested: `imported=False`.
"""

import atexit
import dataclasses
import multiprocessing
import multiprocessing.reduction
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
_FORK = multiprocessing.get_context("forkserver")
# None defines absl flags, which would be flags of every command.
_FORK.set_forkserver_preload(
    [
        "absl.app",
        "h5py",
        "tensorflow",
        "tensorflow_text",
        "keras",
        "sentencepiece",
        "sacrebleu",
        "tqdm",
    ]
)


@dataclasses.dataclass(frozen=True)
class Result:
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


class ForkedProcess:
    """What tests use of subprocess.Popen, of a forked process."""

    def __init__(self, *arguments):
        self._process = _FORK.Process(target=_become, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self.wait(0, check=False)

    def wait(self, timeout=None, check=True):
        self._process.join(timeout)
        if self.returncode is None and check:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _become(command, arguments, folder, environment, descriptors):
    """Runs a command in this process, which was forked for it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        mode, buffering = "w" if number else "r", 1 if number == 2 else -1
        stream = os.fdopen(number, mode, buffering, "utf-8", closefd=False)
        setattr(sys, name, stream)
    _heed_interrupts()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # A fork copies the state of the global generator.
    np.random.seed()
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = filter(None, added)
    [(kind, name)] = command.items()
    sys.argv = [name, *arguments]
    try:
        if kind == "path":
            sys.path[0] = str(pathlib.Path(name).parent)
            runpy.run_path(name, run_name="__main__")
        else:
            sys.path[0] = folder
            runpy.run_module(name, run_name="__main__", alter_sys=True)
    finally:
        # multiprocessing ends its processes without.
        atexit._run_exitfuncs()


def _heed_interrupts():
    # A shell starts what runs in its background with SIGINT ignored, and the
    # tests may run there.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Here rather than in the child: what runs between fork and exec would run
# gRPC's handlers of forks, which end a child of a process that used gRPC.
_heed_interrupts()


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
    imported=True,
):
    """Starts a command in a process of its own.

    Args:
        command: {"module": as of `python -m`} or {"path": of a script}.
        arguments: after the command's name.
        folder: where it runs.
        environment: all of its variables; `user_environment` by default.
        stdin, stdout, stderr: files or sockets; None for nothing.
        imported: whether TensorFlow is imported before it starts.

    Returns:
        subprocess.Popen, or what has its methods.
    """
    environment = environment or user_environment()
    arguments = [*map(str, arguments)]
    with pathlib.Path(os.devnull).open("r+b", buffering=0) as nothing:
        streams = [each or nothing for each in (stdin, stdout, stderr)]
        if imported:
            descriptors = [_Descriptor(each.fileno()) for each in streams]
            return ForkedProcess(
                command, arguments, str(folder), environment, descriptors
            )
        [(kind, name)] = command.items()
        words = [name] if kind == "path" else ["-m", name]
        return subprocess.Popen(
            [sys.executable, *words, *arguments],
            cwd=folder,
            env=environment,
            **dict(zip(("stdin", "stdout", "stderr"), streams)),
        )


@dataclasses.dataclass(frozen=True)
class _Descriptor:
    """A file's number, pickled as the number that it has after the fork."""

    number: int

    def __reduce__(self):
        return _detach, (multiprocessing.reduction.DupFd(self.number),)


def _detach(duplicate):
    return duplicate.detach()


def run(
    command,
    arguments,
    folder=ROOT,
    environment=None,
    source=b"",
    imported=True,
    timeout=300,
):
    """Runs a command, see `start`, to its end; returns its Result.

    `source` are the bytes of its standard input, `timeout` is in seconds.
    """
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(source)
        stdin.seek(0)
        streams = (stdin, stdout, stderr)
        process = start(
            command, arguments, folder, environment, *streams, imported=imported
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return Result(code, _content(stdout), _content(stderr))


def _content(file):
    file.seek(0)
    return file.read().decode("utf-8")
