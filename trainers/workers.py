"""What the workers of one training must agree about."""

import contextlib

import numpy as np
import tensorflow as tf

from export.errors import InputError


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
        raise InputError(
            "Another worker stopped or cannot be reached. Start the same "
            "command on all workers again: it goes on from the last "
            f"checkpoint. ({error.message.splitlines()[0]})"
        ) from error
