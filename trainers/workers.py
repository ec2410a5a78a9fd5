"""What the workers of one training must agree about."""

import contextlib
import re

import numpy as np
import tensorflow as tf

from export.command import InputError

# What TensorFlow's long messages say of it.
_CAUSE = re.compile(r"Collective ops is aborted by: (?:.*: )?(.*?):?$", re.M)
_WORKER = re.compile(r"/job:worker/replica:\d+/task:(\d+)")


def refuse_unequal_steps(strategy, step):
    """Checks that every worker found the same checkpoint.

    Args:
        strategy: tf.distribute.Strategy.
        step: updates made, as this worker read it.

    Raises:
        InputError: another worker goes on from another step.
    """
    if strategy.cluster_resolver is None:
        return

    def gather():
        replica = tf.distribute.get_replica_context()
        return replica.all_gather(tf.constant([step], tf.int64), axis=0)

    gathered = strategy.run(tf.function(gather, autograph=False))
    steps = strategy.experimental_local_results(gathered)[0].numpy()
    if np.any(steps != step):
        raise InputError(
            f"The workers found checkpoints of different steps ({steps}); "
            "--model_dir must be one folder that all of them share."
        )


@contextlib.contextmanager
def noticing_lost_workers(strategy):
    """A block in which the loss of another worker is a clear error.

    Args:
        strategy: tf.distribute.Strategy.

    Raises:
        InputError: another worker stopped or cannot be reached.
    """
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        if strategy.cluster_resolver is None:
            raise
        seen = _seen(error.message, strategy.cluster_resolver)
        raise InputError(
            f"Another worker stopped or cannot be reached ({seen}). Start the "
            "same command on all workers again: it goes on from the last "
            "checkpoint."
        ) from error


def _seen(message, resolver):
    """Returns which workers failed this one and how, as far as it is said."""
    numbers = set(map(int, _WORKER.findall(message))) - {resolver.task_id}
    cluster = resolver.cluster_spec()
    workers = [
        f"worker {number}, {cluster.task_address('worker', number)}"
        for number in sorted(numbers)
    ]
    cause = _CAUSE.search(message)
    cause = cause[1] if cause else message.splitlines()[0]
    return ": ".join([*workers, cause])
