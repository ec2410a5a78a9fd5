"""One step on every replica, of one machine or of several."""

import contextlib

import keras
import tensorflow as tf

from trainers.training.keras_private import all_layers, change_seeds

# The golden ratio's bits: multiples of it lie far apart.
_STRIDE = 0x9E3779B9


class ReplicaSeeds:
    """Folds a replica's number into all seeds of a model.

    Args:
        model: a built keras.Model.
    """

    def __init__(self, model):
        self._replica = None
        for layer in all_layers(model):
            if isinstance(layer, keras.layers.Dropout) and layer.rate:
                change_seeds(layer.seed_generator, self._folded)

    @contextlib.contextmanager
    def of(self, replica):
        """A block in which seeds are those of a replica.

        Args:
            replica: its number, int32 scalar tensor.
        """
        self._replica = replica
        try:
            yield
        finally:
            self._replica = None

    def _folded(self, seed):
        if self._replica is None:
            return seed
        stride = tf.cast(_STRIDE, seed.dtype)
        offset = tf.cast(self._replica, seed.dtype) * stride
        return seed + tf.stack([offset, tf.zeros_like(offset)])


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
