"""A process that runs SavedModels as a server, and how to talk to it."""

import base64
import json
import shutil
import subprocess
import sys
import typing

import numpy as np

from tests.export import tiny

# ServerSession and what it is made of: the process finds nothing else of us.
PARTS = ["__init__.py", "errors.py", "start_up_notes.py", "server_runtime"]
WORKER = tiny.ROOT / "tests" / "export" / "server_worker.py"


class Refused(Exception):
    """A ServerError of the process; args are the code's name, the message."""


class Answer(typing.NamedTuple):
    arrays: dict[str, np.ndarray]

    def texts(self, name) -> list[str]:
        return [text.decode("utf-8") for text in self.arrays[name]]


class Server:
    """The process; every method is one request to it."""

    def __init__(self, folder):
        (folder / "export").mkdir()
        for part in PARTS:
            path, copy = tiny.ROOT / "export" / part, folder / "export" / part
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy)
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(WORKER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()

    def load(self, path) -> None:
        self._ask("load", path=str(path))

    def close(self, path) -> None:
        self._ask("close", path=str(path))

    def modules(self) -> set[str]:
        return set(self._ask("modules"))

    def signatures(self, path):
        return self._ask("signatures", path=str(path))

    def run(self, path, signature="serving_default", **inputs) -> Answer:
        found = self._ask(
            "run", path=str(path), signature=signature, inputs=_pack(inputs)
        )
        return Answer({name: _array(item) for name, item in found.items()})

    def usage(self) -> tuple[float, float]:
        """Megabytes of the process at its peak; processor seconds so far."""
        peak, seconds = self._ask("usage")
        return peak, seconds

    def growth(self, path, times, **inputs) -> float:
        """Megabytes that the process grew by over so many equal requests."""
        return self._ask(
            "growth", path=str(path), times=times, inputs=_pack(inputs)
        )

    def growth_of_errors(self, path, times, **inputs) -> float:
        """The same, for requests that are refused."""
        return self._ask(
            "growth_of_errors",
            path=str(path),
            times=times,
            inputs=_pack(inputs),
        )

    def growth_of_loading(self, path, times) -> float:
        """The same, for loading and closing."""
        return self._ask("growth_of_loading", path=str(path), times=times)

    def answers_in_threads(self, path, texts, threads, times) -> bool:
        """Whether threads at once get the answers that one alone gets."""
        return self._ask(
            "answers_in_threads",
            path=str(path),
            requests=[_pack({"text": text}) for text in texts],
            threads=threads,
            times=times,
        )

    def close_while_running(self, path, **inputs) -> str:
        """Closes under a thread that asks on and on; returns its error."""
        return self._ask(
            "close_while_running", path=str(path), inputs=_pack(inputs)
        )

    def _ask(self, question, **arguments):
        request = {"question": question, **arguments}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the serving process has died"
        answer = json.loads(line)
        if "refused" in answer:
            raise Refused(*answer["refused"])
        if "fault" in answer:
            raise AssertionError(answer["fault"])
        return answer["answer"]


def _pack(inputs):
    return {name: _plain(value) for name, value in inputs.items()}


def _plain(value):
    if isinstance(value, np.ndarray):
        return {
            "dtype": value.dtype.str,
            "shape": value.shape,
            "values": value.ravel().tolist(),
        }
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _array(item):
    array = np.empty(item["shape"], item["dtype"])
    for place, value in enumerate(item["values"]):
        if item["dtype"] == "object":
            value = base64.b64decode(value)
        array.flat[place] = value
    return array
