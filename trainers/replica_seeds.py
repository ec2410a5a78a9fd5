"""Dropout that differs from replica to replica.

Every replica holds the same seeds, so each would draw the same mask. Here the
replica's number is folded into what a seed generator gives; replica 0, and so
a single device, draws what Keras would.
"""

import contextlib

import keras
import tensorflow as tf

from trainers.keras_private import all_layers, change_seeds

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
