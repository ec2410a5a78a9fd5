"""Runs a step on every replica, of one machine or of several.

Keras' own functions reduce what a step returns with a mean over replicas,
which fails for scalars on several machines (keras issue 20585), and compile
around the strategy, which fails on several devices.
"""

import tensorflow as tf


def replicated_step(strategy, step):
    """Returns a function that takes a batch and runs a step with it.

    Args:
        strategy: tf.distribute.Strategy.
        step: function of a replica's part of the batch and of further
            tensors; returns a dict of tensors, the same on every replica.

    Returns:
        Function of a distributed iterator and further tensors; returns what
        one replica returned.
    """

    @tf.function(autograph=False)
    def run(iterator, *others):
        outputs = strategy.run(step, args=(iterator.get_next(), *others))
        return {
            name: strategy.experimental_local_results(value)[0]
            for name, value in outputs.items()
        }

    return run
