"""Starts Python processes that have their imports done already.

python -m tests.process_server SOCKET MODULE...

Importing TensorFlow takes a process seconds of computing. This one imports
the modules once, and becomes every command by a fork: a process of its own,
with its own descriptors, exit code and signals. It must not have threads.

An order is a line of JSON {"module" or "path", "arguments", "folder",
"environment"} with four descriptors: the process' standard ones, and one that
gets its process id and in the end its wait status, a line each. Ends with the
socket.
"""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import runpy
import signal
import socket
import sys

import numpy as np


def main(descriptor, *modules):
    for module in modules:
        importlib.import_module(module)
    # Or the first collection of every process would copy all of it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(descriptor)) as channel:
        received = _serve(channel)
    if received is not None:
        _become(*received)


def _serve(channel):
    """Returns in the processes asked for, with their order."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 4)
        while content and not content.endswith(b"\n"):
            content += channel.recv(1 << 16)
        _reap()
        if not content:
            _reap(options=0)
            return None
        *standard, status = descriptors
        if os.fork() == 0 and not _watch(status):
            os.close(status)
            return json.loads(content), standard
        for each in descriptors:
            os.close(each)


def _reap(options=os.WNOHANG):
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def _watch(status):
    """Forks again; ends this process when that one has, and tells of it."""
    process = os.fork()
    if not process:
        return False
    os.write(status, f"{process}\n".encode())
    code = os.waitpid(process, 0)[1]
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{code}\n".encode())
    os._exit(0)


def _become(order, descriptors):
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    # A shell starts what runs in its background with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    # Python's own numbers are drawn anew after a fork; these are not.
    np.random.seed()
    added = order["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = filter(None, added)
    if "path" in order:
        sys.argv = [order["path"], *order["arguments"]]
        sys.path[0] = str(pathlib.Path(order["path"]).parent)
        runpy.run_path(order["path"], run_name="__main__")
    else:
        sys.argv = [order["module"], *order["arguments"]]
        sys.path[0] = order["folder"]
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
