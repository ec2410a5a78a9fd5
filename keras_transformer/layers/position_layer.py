"""What both kinds of positions have in common."""

import abc

import keras
from keras import ops


class PositionLayer(keras.layers.Layer):
    """Adds a vector for each position; subclasses say which.

    Args:
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, positions=None):
        """Adds each position's vector.

        Args:
            inputs: float [B, T, D].
            positions: int32 [B, T] or [1, T]; 0 to T - 1 when None.

        Returns:
            float [B, T, D].
        """
        if positions is None:
            positions = ops.expand_dims(ops.arange(ops.shape(inputs)[1]), 0)
        return inputs + ops.cast(self.encode(positions), inputs.dtype)

    @abc.abstractmethod
    def encode(self, positions):
        """Returns the vectors of int32 [...] positions: float [..., D]."""
