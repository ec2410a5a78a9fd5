"""Processes that call functions: a server without Keras, and others."""

import faulthandler
import multiprocessing
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback
import typing

import numpy as np

_SPAWN = multiprocessing.get_context("spawn")


class Refused(Exception):
    """The process found a request to be wrong."""


class Answer(typing.NamedTuple):
    arrays: dict[str, np.ndarray]

    def texts(self, name) -> list[str]:
        return [text.decode("utf-8") for text in self.arrays[name]]


class ChildProcess:
    """A process that calls one function after the other.

    If it dies, the call at which that is noticed fails with its exit code,
    and the next one starts another process.
    """

    def __init__(self):
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process is not None:
            self._connection.close()
            self._process.join(10)
            self._process.kill()
            self._folder.cleanup()

    def call(self, function, *arguments):
        """Returns the function's result, or raises its Refused."""
        if self._process is None:
            self._start()
        try:
            self._connection.send((function, arguments))
            result, error = self._connection.recv()
        except (EOFError, OSError) as lost:
            raise RuntimeError(self._describe_death(function)) from lost
        if error is not None:
            raise error
        return result

    def _start(self):
        self._folder = tempfile.TemporaryDirectory()
        self._faults = pathlib.Path(self._folder.name, "faults")
        self._faults.touch()
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_serve, args=(theirs, self._faults), daemon=True
        )
        self._process.start()
        theirs.close()

    def _describe_death(self, function):
        process, self._process = self._process, None
        process.join(10)
        faults = self._faults.read_text()
        self._folder.cleanup()
        code = process.exitcode
        if code is not None and code < 0:
            code = signal.Signals(-code).name
        return (
            f"The process for {function.__name__} ended with {code}; "
            f"faulthandler: {faults[:3000] or 'nothing'}"
        )


def _serve(connection, faults):
    with faults.open("w") as file:
        faulthandler.enable(file)
        while True:
            try:
                function, arguments = connection.recv()
            except EOFError:
                return
            result, error = None, None
            try:
                result = function(*arguments)
            except Refused as refused:
                error = refused
            except Exception:
                # Others may not be picklable.
                error = AssertionError(traceback.format_exc())
            connection.send((result, error))


class Server(ChildProcess):
    """A process that runs exports as a server does, without Keras."""

    def run(self, path, signature="serving_default", **inputs) -> Answer:
        return Answer(self.call(_run, str(path), signature, inputs))

    def modules(self) -> set[str]:
        return self.call(_modules)

    def usage(self) -> tuple[float, float]:
        """Megabytes of the process at its peak; processor seconds so far."""
        return self.call(_usage)


_sessions = {}


def _run(path, signature, inputs):
    from export.serving.session import ServerSession, tf

    if path not in _sessions:
        _sessions[path] = ServerSession(path)
    try:
        return _sessions[path].run(signature, inputs)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        raise Refused(str(error)) from None


def _modules():
    return set(sys.modules)


def _usage():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * 1024 / 1e6, time.process_time()
