"""The decoder's memory of earlier positions, for one layer.

A cache is a pair (keys, values) of float [B, H, steps, K * d]: the step's
K beams lie side by side, so that a step is written in one piece and is never
moved again. Which of the K slots of an earlier step belongs to a beam's own
past is said by a mask (see `beam_decoder`), not by re-ordering the cache.
"""

from keras import ops


def empty(batch, num_heads, steps, beams, widths, dtype):
    """Returns a cache with nothing in it.

    Args:
        batch: B, number or int32 scalar.
        num_heads: H.
        steps: number of steps it has room for, number or int32 scalar.
        beams: K.
        widths: (d_k, d_v).
        dtype: of its elements.

    Returns:
        A pair of float [B, H, steps, K * d], all zero.
    """
    shapes = [(batch, num_heads, steps, beams * width) for width in widths]
    return tuple(ops.zeros(shape, dtype=dtype) for shape in shapes)


def write(cache, heads, index):
    """Returns the cache with one step written.

    Args:
        cache: see `empty`.
        heads: pair of float [B, H, K, d].
        index: int32 scalar, the step to write.

    Returns:
        The cache.
    """
    return tuple(_write(*pair, index) for pair in zip(cache, heads))


def _write(cache, heads, index):
    batch, num_heads, steps, width = ops.shape(cache)
    rows = batch * num_heads
    where = ops.stack(
        [ops.arange(rows), ops.broadcast_to(index, (rows,))], axis=1
    )
    written = ops.scatter_update(
        ops.reshape(cache, (rows, steps, width)),
        where,
        ops.reshape(heads, (rows, width)),
    )
    return ops.reshape(written, (batch, num_heads, steps, width))


def read(cache, beams):
    """Returns all slots as attention wants them.

    Args:
        cache: see `empty`.
        beams: K.

    Returns:
        A pair of float [B, H, steps * K, d].
    """
    return tuple(_read(part, beams) for part in cache)


def _read(part, beams):
    batch, num_heads, steps, width = ops.shape(part)
    return ops.reshape(part, (batch, num_heads, steps * beams, width // beams))
