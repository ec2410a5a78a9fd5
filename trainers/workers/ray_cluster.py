"""Connection to a Ray cluster, and the flag --ray.

Machines of a cluster share no disk: tasks receive their arguments, return their
results, and get this program's code from the machine that started them.
"""

import contextlib
import functools
import logging
import os
import pathlib
import socket
import typing
from collections.abc import Callable, Iterable, Iterator

from absl import flags

from export.common.errors import InputError
from export.common.parallel import PENDING_PER_WORKER, map_futures

# Maximum retries of a task whose worker or machine died.
_RETRIES = 10
_CONNECTION_TIMEOUT = 10  # seconds
_TOKEN_FILE = "~/.ray/auth_token"
_ROOT = pathlib.Path(__file__).parents[2]
_PACKAGES = ("trainers", "export", "keras_transformer")


def define_flag() -> None:
    """Defines --ray."""
    flags.DEFINE_string(
        "ray",
        None,
        "Work on a Ray cluster: auto for this machine's, or host:port of its "
        "head.",
    )


class RayCluster:
    """A connected cluster for tasks of `cpus` processors and `gpus` GPUs."""

    def __init__(self, ray: typing.Any, cpus: int, gpus: float):
        self._ray = ray
        self._cpus, self._gpus = cpus, gpus

    def put(self, value: typing.Any) -> typing.Any:
        """Stores a value, sent once to each machine; returns a reference."""
        return self._ray.put(value)

    def map(
        self,
        function: Callable[[typing.Any], typing.Any],
        items: Iterable[typing.Any],
        in_order: bool = True,
    ) -> Iterator[typing.Any]:
        """Maps as `map_futures`, a task for each item.

        Function and items must be picklable, and results must not depend on who
        computes them: tasks of lost workers and machines are repeated.
        """
        task = self._ray.remote(
            num_cpus=self._cpus, num_gpus=self._gpus, max_retries=_RETRIES
        )(_call)
        # Each machine receives the function once.
        start = functools.partial(task.remote, self.put(function))
        return map_futures(
            lambda item: start(item).future(),
            items,
            # Machines join and leave.
            lambda: PENDING_PER_WORKER * max(self.count_concurrent_tasks(), 1),
            in_order,
        )

    def count_concurrent_tasks(self) -> int:
        """Returns how many tasks the cluster runs at once."""
        resources: dict[str, float] = {"CPU": self._cpus}
        if self._gpus:
            resources["GPU"] = self._gpus
        total = 0
        for node in self._ray.nodes():
            if node["Alive"]:
                available = node["Resources"]
                total += min(
                    int(available.get(name, 0) // amount)
                    for name, amount in resources.items()
                )
        return total


def _call(function, item):
    return function(item)


@contextlib.contextmanager
def connect(
    address: str, cpus: int = 1, gpus: float = 0.0
) -> Iterator[RayCluster]:
    """Yields a RayCluster, and converts errors of Ray to InputError.

    `address` is "auto" for this machine's cluster, or host:port of the head.
    Raises InputError if Ray is missing, the cluster cannot be used or is too
    small, a task does, or the workers of a task die repeatedly.
    """
    _enable_token()
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "--ray needs Ray, which is not installed; pip install -r "
            "requirements-ray.txt, or omit it to use this machine alone."
        ) from error
    if address != "auto":
        _validate_address(address)
    try:
        with _discard_stderr():
            ray.init(
                address,
                runtime_env={
                    "py_modules": [str(_ROOT / p) for p in _PACKAGES],
                    # Otherwise each task would use all processors.
                    "env_vars": {"TF_NUM_INTRAOP_THREADS": str(cpus)},
                },
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    # Ray raises many types, also of its own.
    except Exception as error:
        if "Could not find any running" in str(error):
            raise InputError(
                f"--ray={address}: no cluster runs on this machine. Start one "
                "with ray start --head, or join one with ray start "
                "--address=HOST:PORT."
            ) from error
        raise InputError(
            f"--ray={address} cannot be used: {_first_sentence(error)}. This "
            "machine needs the authentication token of the cluster's head, "
            f"{_TOKEN_FILE}, if it has one, and the same version of Ray."
        ) from error
    try:
        cluster = RayCluster(ray, cpus, gpus)
        if not cluster.count_concurrent_tasks():
            raise InputError(
                f"No machine of --ray={address} has the {cpus} processors and "
                f"{gpus:g} GPUs that a task needs; add machines, or lower the "
                "flags that set them."
            )
        yield cluster
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise InputError(
            f"The workers of a task were lost {_RETRIES + 1} times, the last "
            f"time with: {_first_line(error)} Give them more memory, then run "
            "the same command again, which resumes."
        ) from error
    finally:
        ray.shutdown()


@contextlib.contextmanager
def task_map(address: str) -> Iterator[Callable[..., Iterator[typing.Any]]]:
    """Yields `RayCluster.map` of a cluster, one processor per task."""
    with connect(address) as cluster:
        yield cluster.map


def _enable_token():
    """Makes Ray use its authentication token, if this machine has one.

    As ray start does, and ray.init for the address auto only. Ray reads the
    variable when it is imported.
    """
    token_path = os.environ.get("RAY_AUTH_TOKEN_PATH", _TOKEN_FILE)
    has_token = pathlib.Path(token_path).expanduser().exists()
    if "RAY_AUTH_TOKEN" in os.environ or has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _validate_address(address):
    """Raises InputError if nobody listens; Ray would retry for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _CONNECTION_TIMEOUT).close()
    except (OSError, ValueError) as error:
        raise InputError(
            f"--ray={address} does not respond ({error}); give auto, or the "
            "host:port that ray start --head printed, such as 10.0.0.1:6379."
        ) from error


@contextlib.contextmanager
def _discard_stderr():
    """Discards standard error, where Ray's C++ logs its attempts to connect."""
    original = os.dup(2)
    try:
        with pathlib.Path(os.devnull).open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def _first_line(error):
    return str(error).strip().splitlines()[0]


def _first_sentence(error):
    return _first_line(error).partition(". ")[0].rstrip(".")
