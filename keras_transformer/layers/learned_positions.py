"""Learned positional embedding: Table 3, row (E)."""

import keras
from keras import ops

from keras_transformer.layers.position_layer import PositionLayer


@keras.saving.register_keras_serializable("keras_transformer")
class LearnedPositionEmbedding(PositionLayer):
    """Adds a learned vector for each position.

    Args:
        max_positions: rows of the table; a position beyond it is an error,
            where a backend checks (JAX gives NaN).
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: a sequence of known length is longer than the table.
    """

    def __init__(self, max_positions, **kwargs):
        super().__init__(**kwargs)
        self.max_positions = max_positions

    def build(self, input_shape):
        """Makes the table for [B, T, D]."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_positions, input_shape[-1]),
            initializer=keras.initializers.RandomNormal(
                stddev=input_shape[-1] ** -0.5
            ),
        )
        self.built = True

    def call(self, inputs, positions=None):
        """Adds the embedding; see PositionLayer."""
        # Packed rows are longer than any sentence in them, and give positions.
        length = inputs.shape[1] if positions is None else None
        if isinstance(length, int) and length > self.max_positions:
            raise ValueError(
                f"A sequence of {length} positions does not fit the table of "
                f"max_positions={self.max_positions}; raise max_positions."
            )
        return super().call(inputs, positions)

    def encode(self, positions):
        """Returns the embedding of int32 [...] positions: float [..., D]."""
        return ops.take(self.embeddings, positions, axis=0)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), "max_positions": self.max_positions}
