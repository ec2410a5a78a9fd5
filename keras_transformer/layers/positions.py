"""Positions: sinusoids (section 3.5) or a learned table (Table 3, row E).

And a form of the sinusoids that also says which word a token belongs to.
"""

import abc

import keras
import numpy as np
from keras import ops

from keras_transformer.layers.sequence_layer import (
    SequenceLayer,
    as_ids,
    check_ids,
    look_up,
    require_counts,
)

_FINE = 128
_COARSE = 128


class PositionLayer(SequenceLayer):
    """Adds a vector for each position; subclasses say which.

    Args:
        **kwargs: of `keras.layers.Layer`.
    """

    # Of two exact tables of sinusoids; a learned one has a size of its own.
    max_positions = _FINE * _COARSE

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, positions=None, words=None):
        """Adds each position's vector.

        Args:
            inputs: float [B, T, D].
            positions: int32 [B, T] or [1, T]; 0 to T - 1 when None.
            words: int32 [B, T], for WordPositionEncoding.

        Returns:
            float [B, T, D].

        Raises:
            ValueError: a sequence of known length, or a known position, is
                beyond `max_positions`.
        """
        if positions is None:
            # Packed rows, which give positions, are longer than a sentence.
            length = inputs.shape[1]
            if isinstance(length, int) and length > self.max_positions:
                raise ValueError(
                    f"A sequence of {length} positions does not fit the table "
                    f"of max_positions={self.max_positions}; raise "
                    "max_positions, or shorten it."
                )
            positions = ops.expand_dims(ops.arange(ops.shape(inputs)[1]), 0)
        positions = as_ids(positions)
        return inputs + ops.cast(self.encode(positions, words), inputs.dtype)

    @abc.abstractmethod
    def encode(self, positions, words=None):
        """Returns the vectors of int32 [...] positions: float [..., D]."""


@keras.saving.register_keras_serializable("keras_transformer")
class SinusoidalPositionEncoding(PositionLayer):
    """Adds PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(same).

    An angle computed in float32 is off by 1e-4 at position 1,000. So the
    sine of a position is put together from two exact tables, position =
    128 * coarse + fine, by the addition theorem; that holds up to position
    16,383.

    Args:
        rates: "paper" for these; "marian" for those of Marian, fairseq and
            tensor2tensor, which fall to 1/10000: 10000^(-i/(D/2-1)).
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: there are no such rates, or the width is odd.
    """

    def __init__(self, rates="paper", **kwargs):
        super().__init__(**kwargs)
        if rates not in ("paper", "marian"):
            raise ValueError(f"rates must be paper or marian, not {rates!r}.")
        self.rates = rates

    def build(self, input_shape):
        """Makes the tables for [B, T, D]; there are no weights."""
        self.require_width(input_shape)
        pairs, odd = divmod(input_shape[-1], 2)
        steps = pairs if self.rates == "paper" else pairs - 1
        if odd or not steps:
            least = "" if self.rates == "paper" else " above 2"
            raise ValueError(
                f"Sinusoids come in pairs and need an even width{least}, not "
                f"{input_shape[-1]}."
            )
        rates = 10000.0 ** (-np.arange(pairs) / steps)
        self._fine = np.arange(_FINE)[:, None] * rates
        self._coarse = _FINE * np.arange(_COARSE)[:, None] * rates
        self.built = True

    def encode(self, positions, words=None):
        """Returns the encoding of int32 [...] positions: float32 [..., D]."""
        check_ids(positions, self.max_positions, "position")
        fine, coarse = positions % _FINE, positions // _FINE
        sin_fine, cos_fine = _look_up(self._fine, fine)
        sin_coarse, cos_coarse = _look_up(self._coarse, coarse)
        sin = sin_coarse * cos_fine + cos_coarse * sin_fine
        cos = cos_coarse * cos_fine - sin_coarse * sin_fine
        pairs = ops.stack([sin, cos], axis=-1)
        width = 2 * self._fine.shape[1]
        return ops.reshape(pairs, (*ops.shape(positions), width))

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rates": self.rates}


def _look_up(angles, rows):
    return (
        ops.take(
            ops.convert_to_tensor(np.sin(angles), "float32"), rows, axis=0
        ),
        ops.take(
            ops.convert_to_tensor(np.cos(angles), "float32"), rows, axis=0
        ),
    )


@keras.saving.register_keras_serializable("keras_transformer")
class WordPositionEncoding(PositionLayer):
    """Adds the sinusoids of a token's position and of its word's.

    Half of the width is PE of the position, the other half PE of the word's
    number. So a decoder that says one thing for each word of the source can
    find the word that is next: it has the same encoding on both sides.

    Args:
        **kwargs: of `keras.layers.Layer`.
    """

    def build(self, input_shape):
        """Makes the tables for [B, T, D]; there are no weights."""
        self.require_width(input_shape)
        self._half = SinusoidalPositionEncoding(dtype=self.dtype_policy)
        self._half.build((None, None, input_shape[-1] // 2))
        self.built = True

    def encode(self, positions, words=None):
        """Returns the encoding of both: float32 [..., D]."""
        shape = ops.shape(words)
        both = [ops.broadcast_to(positions, shape), words]
        return ops.concatenate(list(map(self._half.encode, both)), axis=-1)


@keras.saving.register_keras_serializable("keras_transformer")
class LearnedPositionEmbedding(PositionLayer):
    """Adds a learned vector for each position.

    Args:
        max_positions: rows of the table; a position beyond it is an error,
            where `look_up` can tell.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: `max_positions` is not a whole number of at least 1.
    """

    def __init__(self, max_positions, **kwargs):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        require_counts(self, "max_positions")

    def build(self, input_shape):
        """Makes the table for [B, T, D]."""
        self.require_width(input_shape)
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_positions, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(
                stddev=input_shape[-1] ** -0.5
            ),
        )
        self.built = True

    def encode(self, positions, words=None):
        """Returns the embedding of int32 [...] positions: float [..., D]."""
        return look_up(self.embeddings, positions, "position")

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "max_positions": self.max_positions}
