"""The process behind tests.export.server: one JSON request a line.

usage: python -I server_worker.py FOLDER, where FOLDER/export holds
server_session.py and what it is made of.
"""

import base64
import gc
import json
import pathlib
import resource
import sys
import threading
import time
import traceback

import numpy as np

sys.path.insert(0, sys.argv[1])

from export.server_runtime.session import ServerError, ServerSession  # noqa: E402

sessions = {}


def load(path):
    sessions[path] = ServerSession(path)


def close(path):
    sessions[path].close()


def modules():
    return sorted(sys.modules)


def signatures(path):
    return _session(path).signatures()


def run(path, signature, inputs):
    outputs = _session(path).run(signature, _unpacked(inputs))
    return {name: _item(array) for name, array in outputs.items()}


def usage():
    """Megabytes at the peak, and processor seconds so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * 1024 / 1e6, time.process_time()


def growth(path, times, inputs):
    session, inputs = _session(path), _unpacked(inputs)
    (name,) = session.signatures()
    return _growth(lambda: session.run(name, inputs), times)


def growth_of_errors(path, times, inputs):
    session, inputs = _session(path), _unpacked(inputs)
    (name,) = session.signatures()

    def refused():
        try:
            session.run(name, inputs)
        except ServerError:
            return
        raise AssertionError("this is answered")

    return _growth(refused, times)


def growth_of_loading(path, times):
    # Kept, so that it is not Python's collector that frees them.
    closed = []

    def load_and_close():
        closed.append(ServerSession(path))
        closed[-1].close()

    return _growth(load_and_close, times)


def answers_in_threads(path, requests, threads, times):
    session = _session(path)
    requests = [_unpacked(request) for request in requests]
    expected = [_answer(session, request) for request in requests]
    same = []

    def ask(first):
        for number in range(first, first + times):
            place = number % len(requests)
            answer = _answer(session, requests[place])
            same.append(answer == expected[place])

    pool = [threading.Thread(target=ask, args=(n,)) for n in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    return same == [True] * (threads * times)


def close_while_running(path, inputs):
    session = ServerSession(path)
    (name,) = session.signatures()
    started, answers = threading.Event(), []

    def ask():
        started.set()
        try:
            while True:
                answers.append(session.run(name, _unpacked(inputs)))
        except ValueError as error:
            answers.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    started.wait()
    while not answers:
        pass
    session.close()
    thread.join()
    return answers[-1]


def _session(path):
    if path not in sessions:
        load(path)
    return sessions[path]


def _answer(session, request):
    outputs = session.run("serving_default", request)
    return {name: array.tolist() for name, array in outputs.items()}


def _growth(action, times):
    # The first calls fill the allocator's own pools.
    for _ in range(max(times // 4, 2)):
        action()
    gc.collect()
    before = _megabytes()
    for _ in range(times):
        action()
    gc.collect()
    return _megabytes() - before


def _megabytes():
    with pathlib.Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def _unpacked(inputs):
    return {name: _value(value) for name, value in inputs.items()}


def _value(value):
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, dict) and "bytes" in value:
        return base64.b64decode(value["bytes"])
    if isinstance(value, dict):
        flat = np.array(value["values"], value["dtype"])
        return flat.reshape(value["shape"])
    return value


def _item(array):
    values = array.ravel().tolist()
    if array.dtype == object:
        values = [base64.b64encode(value).decode("ascii") for value in values]
    return {"shape": array.shape, "dtype": array.dtype.name, "values": values}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        function = globals()[request.pop("question")]
        try:
            answer = {"answer": function(**request)}
        except ServerError as error:
            answer = {"refused": [error.code.name, error.message]}
        except Exception:
            answer = {"fault": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
    for session in sessions.values():
        session.close()


main()
