"""The decoder's cache as TensorFlow writes it soonest."""

import tensorflow as tf

import keras_transformer as kt


class ForwardedCache(kt.Cache):
    """A cache that is written where it stands.

    TensorFlow's TensorScatterUpdate, which Keras calls, copies the whole
    cache on a CPU each time. This operation adds to the rows, which are zero
    before, and hands its input's memory on where nobody else reads it.
    """

    __slots__ = ()

    @staticmethod
    def scatter(cache, where, rows):
        """See `kt.Cache.scatter`."""
        return tf.raw_ops.ScatterNdNonAliasingAdd(
            input=cache, indices=where, updates=rows
        )
