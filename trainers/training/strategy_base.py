"""What the modules of devices for TensorFlow and JAX have in common."""

import contextlib
import typing

import numpy as np

from export.common.errors import InputError

STRATEGIES = ("auto", "one", "mirrored", "multiworker")
# A tf.distribute.Strategy or a JaxStrategy.
Strategy: typing.TypeAlias = typing.Any


class Strategies(typing.Protocol):
    """The functions of the modules `strategies` and `jax_strategies`.

    A strategy has `scope()`, a context in which variables are made and `fit`
    runs, and `num_replicas_in_sync`, its number of devices.
    """

    def split_cpu(self, count: int) -> None:
        """Splits the CPU into devices, before any operation."""

    def make_operations_deterministic(self) -> None:
        """Makes the backend use operations with reproducible bits."""

    def make_strategy(self, name: str) -> Strategy:
        """Returns a strategy by its name in STRATEGIES.

        "one" uses a single device, "mirrored" all GPUs of this machine (without
        GPUs all logical CPUs), "auto" mirrored with several GPUs and otherwise
        one. "multiworker", for the machines or processes that the environment
        names, must be made before any operation and waits for all of them.
        """

    def local_strategy(self) -> Strategy:
        """Returns the strategy for one device of this worker."""

    def is_chief(self, strategy: Strategy) -> bool:
        """Whether this is the worker that writes and reports."""

    def is_multiworker(self, strategy: Strategy) -> bool:
        """Whether other workers take part."""

    def gather_steps(self, strategy: Strategy, step: int) -> np.ndarray:
        """Returns the steps that all workers resume from, int [N]."""

    def report_lost_workers(
        self, strategy: Strategy
    ) -> contextlib.AbstractContextManager[None]:
        """Context that raises InputError when another worker is lost."""


def lost_worker_error(reason: str) -> InputError:
    """Returns the InputError of `report_lost_workers`."""
    return InputError(
        f"Another worker stopped or cannot be reached ({reason}). Start the "
        "same command on all workers again: it resumes from the last "
        "checkpoint."
    )
