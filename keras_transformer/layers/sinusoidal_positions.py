"""Sinusoidal positional encoding: section 3.5."""

import keras
import numpy as np
from keras import ops

from keras_transformer.layers.position_layer import PositionLayer

_FINE = 128
_COARSE = 128


@keras.saving.register_keras_serializable("keras_transformer")
class SinusoidalPositionEncoding(PositionLayer):
    """Adds PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same).

    An angle computed in float32 is off by 1e-4 at position 1,000. So the
    sine of a position is put together from two exact tables, position =
    128 * coarse + fine, by the addition theorem; that holds up to position
    16,383.

    Args:
        **kwargs: of `keras.layers.Layer`.
    """

    def build(self, input_shape):
        """Makes the tables for [B, T, D]; there are no weights."""
        width = input_shape[-1]
        rates = 10000.0 ** (-np.arange(0, width, 2) / width)
        self._fine = np.arange(_FINE)[:, None] * rates
        self._coarse = _FINE * np.arange(_COARSE)[:, None] * rates
        self.built = True

    def encode(self, positions):
        """Returns the encoding of int32 [...] positions: float32 [..., D]."""
        fine, coarse = positions % _FINE, positions // _FINE
        sin_fine, cos_fine = _look_up(self._fine, fine)
        sin_coarse, cos_coarse = _look_up(self._coarse, coarse)
        sin = sin_coarse * cos_fine + cos_coarse * sin_fine
        cos = cos_coarse * cos_fine - sin_coarse * sin_fine
        pairs = ops.stack([sin, cos], axis=-1)
        width = 2 * self._fine.shape[1]
        return ops.reshape(pairs, (*ops.shape(positions), width))


def _look_up(angles, rows):
    return (
        ops.take(
            ops.convert_to_tensor(np.sin(angles), "float32"), rows, axis=0
        ),
        ops.take(
            ops.convert_to_tensor(np.cos(angles), "float32"), rows, axis=0
        ),
    )
