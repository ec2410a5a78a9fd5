"""A process that runs exports as a server does, without Keras."""

import concurrent.futures
import faulthandler
import multiprocessing
import resource
import sys
import time
import typing

import numpy as np


class Refused(Exception):
    """The process found a request to be wrong."""


class Answer(typing.NamedTuple):
    arrays: dict[str, np.ndarray]

    def texts(self, name) -> list[str]:
        return [text.decode("utf-8") for text in self.arrays[name]]


class Server:
    """A process that runs exports as a server does, without Keras."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self._pool = concurrent.futures.ProcessPoolExecutor(
            1, context, initializer=faulthandler.enable
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._pool.shutdown()

    def call(self, function, *arguments):
        """Returns the function's result, or raises its exception."""
        return self._pool.submit(function, *arguments).result()

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
