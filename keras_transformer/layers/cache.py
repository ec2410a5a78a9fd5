"""The decoder's memory of earlier positions."""

import typing

from keras import ops


class KVCache(typing.NamedTuple):
    """Keys and values of one layer, of all steps so far or the latest.

    The step's K beams lie side by side, so that a step is written in one
    piece and is never moved again. Which of the K slots of an earlier step
    belongs to a beam's own past is said by a mask (see `beam_decoder`), not
    by re-ordering the cache.

    A backend that can write a step without copying the others does so in a
    subclass with a `scatter` and a `replace` of its own.

    Attributes:
        keys: float [B, H, steps, K * d_k].
        values: float [B, H, steps, K * d_v].
    """

    keys: typing.Any
    values: typing.Any

    @classmethod
    def empty(cls, batch, num_heads, steps, beams, widths, dtype):
        """Returns a cache with nothing in it: all zero.

        Args:
            batch: B, number or int32 scalar.
            num_heads: H.
            steps: number of steps it has room for, number or int32 scalar.
            beams: K.
            widths: (d_k, d_v).
            dtype: of its elements.
        """
        shapes = [(batch, num_heads, steps, beams * width) for width in widths]
        return cls(*[ops.zeros(shape, dtype=dtype) for shape in shapes])

    @staticmethod
    def scatter(cache, where, rows):
        """Returns a cache with rows in the place of empty ones.

        Args:
            cache: float [N, steps, width].
            where: int32 [N, 2], their places in the first two axes.
            rows: float [N, width].
        """
        return ops.scatter_update(cache, where, rows)

    @staticmethod
    def replace(cache, where, rows):
        """As `scatter`, in the place of rows that need not be empty."""
        return ops.scatter_update(cache, where, rows)

    def append(self, keys, values, index):
        """Returns the cache with one step written.

        Args:
            keys: float [B, H, K, d_k].
            values: float [B, H, K, d_v].
            index: int32 scalar, the step to write, empty so far.
        """
        return type(self)(
            self._written(self.scatter, self.keys, keys, index),
            self._written(self.scatter, self.values, values, index),
        )

    def overwrite(self, keys, values, index):
        """As `append`, in the place of a step that need not be empty."""
        return type(self)(
            self._written(self.replace, self.keys, keys, index),
            self._written(self.replace, self.values, values, index),
        )

    @staticmethod
    def _written(put, cache, heads, index):
        batch, num_heads, steps, width = ops.shape(cache)
        rows = batch * num_heads
        where = ops.stack(
            [ops.arange(rows), ops.broadcast_to(index, (rows,))], axis=1
        )
        written = put(
            ops.reshape(cache, (rows, steps, width)),
            where,
            ops.reshape(heads, (rows, width)),
        )
        return ops.reshape(written, (batch, num_heads, steps, width))

    def read(self, beams):
        """Returns all slots as attention wants them.

        Args:
            beams: K.

        Returns:
            A pair of float [B, H, steps * K, d].
        """
        return tuple(_slots(part, beams) for part in self)


def _slots(part, beams):
    batch, num_heads, steps, width = ops.shape(part)
    return ops.reshape(part, (batch, num_heads, steps * beams, width // beams))
