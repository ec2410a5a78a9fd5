"""Devices of a training on JAX, by keras.distribution; its `Strategies`.

An update is one program for all devices: its rows are divided among them, and
its result does not depend on their number, dropout included.
"""

import atexit
import contextlib
import os
import re
import typing
from collections.abc import Iterator, Sequence

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from export.common import command
from export.common.errors import InputError
from trainers.training.strategy_base import lost_worker_error

_COORDINATOR = "JAX_COORDINATOR_ADDRESS"
# The others end when the chief, which scores alone, does: after JAX's 5 minutes
# all would be aborted. A lost process ends them sooner.
_SHUTDOWN_SECONDS = 7 * 24 * 3600
_PROCESSES = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


class JaxStrategy:
    """The devices of a keras.distribution.DataParallel; None for one device.

    `num_replicas_in_sync` is the number of devices, over all processes.
    """

    def __init__(
        self, distribution: keras.distribution.DataParallel | None = None
    ):
        self._distribution = distribution
        self.num_replicas_in_sync = 1
        if distribution is not None:
            self.num_replicas_in_sync = distribution.device_mesh.devices.size

    @classmethod
    def for_devices(cls, devices: Sequence[jax.Device]) -> typing.Self:
        """Returns the strategy for jax devices."""
        if len(devices) == 1:
            return cls()
        names = [f"{each.platform}:{each.id}" for each in devices]
        mesh = keras.distribution.DeviceMesh((len(names),), ["batch"], names)
        return cls(
            keras.distribution.DataParallel(
                device_mesh=mesh, auto_shard_dataset=False
            )
        )

    @classmethod
    def current(cls) -> typing.Self:
        """Returns the strategy whose scope is open."""
        return cls(keras.distribution.distribution())

    def scope(self) -> contextlib.AbstractContextManager:
        """Context in which variables are made and `fit` runs."""
        if self._distribution is None:
            return contextlib.nullcontext()
        return self._distribution.scope()

    def distribute(self, rows: np.ndarray) -> jax.Array:
        """Returns the rows of all processes, given those of this process.

        Takes an array, and returns one whose first axis is divided among the
        devices.
        """
        if self._distribution is None:
            return jax.device_put(rows)
        return jax.make_array_from_process_local_data(
            self.sharding("batch"), rows
        )

    def local_rows(self, rows: np.ndarray, multiple: int = 1) -> np.ndarray:
        """Returns this process's rows of the global batch.

        Rows of padding are added, so that each device has the same number, a
        multiple of `multiple`.
        """
        multiple *= self.num_replicas_in_sync
        missing = -len(rows) % multiple
        rows = np.pad(rows, [(0, missing), *[(0, 0)] * (rows.ndim - 1)])
        if self._distribution is None:
            return rows
        size = len(rows) // jax.process_count()
        return rows[jax.process_index() * size :][:size]

    def sharding(self, *axes: str) -> jax.sharding.Sharding | None:
        """Returns the jax Sharding along mesh axes; None for one device."""
        if self._distribution is None:
            return None
        mesh = self._distribution.device_mesh.backend_mesh
        return jax.sharding.NamedSharding(
            mesh, jax.sharding.PartitionSpec(*axes)
        )


def split_cpu(count: int) -> None:
    """Splits the CPU into devices, before any operation."""
    jax.config.update("jax_num_cpu_devices", count)


def make_operations_deterministic() -> None:
    """Makes XLA use operations with reproducible bits on GPUs."""
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true"


def make_strategy(name: str) -> JaxStrategy:
    """Returns a JaxStrategy; multiworker of JAX_COORDINATOR_ADDRESS."""
    if name == "multiworker":
        count, index = _read_processes()
        jax.distributed.initialize(
            os.environ[_COORDINATOR],
            num_processes=count,
            process_id=index,
            shutdown_timeout_seconds=_SHUTDOWN_SECONDS,
        )
        return JaxStrategy.for_devices(jax.devices())
    devices = jax.devices()
    if name == "one" or (name == "auto" and not has_gpu()):
        devices = devices[:1]
    return JaxStrategy.for_devices(devices)


def has_gpu() -> bool:
    """Whether JAX sees a GPU or another accelerator."""
    return jax.default_backend() != "cpu"


def is_chief(strategy: JaxStrategy) -> bool:
    """Whether this is the process that writes and reports."""
    del strategy
    return jax.process_index() == 0


def is_multiworker(strategy: JaxStrategy) -> bool:
    """Whether other processes take part."""
    del strategy
    return jax.process_count() > 1


def local_strategy() -> JaxStrategy:
    """Returns the strategy for one device of this process."""
    return JaxStrategy()


def _read_processes():
    """Returns number and index of processes; InputError if they are wrong."""
    address = os.environ.get(_COORDINATOR, "")
    texts = [os.environ.get(name, "") for name in _PROCESSES]
    is_valid = re.fullmatch(r".+:\d+", address) and all(
        text.isdecimal() for text in texts
    )
    count, index = map(int, texts) if is_valid else (0, 0)
    if index >= count:
        names = ", ".join((_COORDINATOR, *_PROCESSES))
        raise InputError(
            f"Expected {names} in the environment of every process, such as "
            f"host1:2222, 2 and 0, got {address!r}, {texts[0]!r} and "
            f"{texts[1]!r}."
        )
    return count, index


def gather_steps(strategy: JaxStrategy, step: int) -> np.ndarray:
    """Returns the steps that all processes resume from, int [N]."""
    del strategy
    return multihost_utils.process_allgather(np.array([step])).ravel()


@contextlib.contextmanager
def report_lost_workers(strategy: JaxStrategy) -> Iterator[None]:
    """Context that raises InputError when another process is lost.

    After an error the process ends at once, so that the others hear of it.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if not is_multiworker(strategy):
            raise
        is_lost = isinstance(error, jax.errors.JaxRuntimeError)
        code = 1
        if is_lost or isinstance(error, InputError):
            code = command.EXIT_INPUT_ERROR
        elif isinstance(error, KeyboardInterrupt):
            code = command.EXIT_INTERRUPTED
        # JAX would wait for the other processes at exit, which wait for this
        # one or are lost.
        atexit.register(os._exit, code)
        if not is_lost:
            raise
        raise lost_worker_error(str(error).splitlines()[0]) from error
