"""Local (restricted) self-attention in blocks: section 4.

A position attends to those at most r away. Queries are split into blocks, which
attend to the keys of their own block and r on either side (causal: on the
left), so that time and memory grow with n r instead of n^2.

Letters: B batch, H heads, n positions, r window, C blocks of L positions, W
keys per block: L + 2r, or causal L + r.
"""

from keras import ops

# Smaller blocks have fewer masked keys but smaller products: 32 to 128 are
# equally fast, forward and backward, for windows of 16 and 64.
_MIN_BLOCK_SIZE = 64

# Sequences longer than this many times W are split. Forward and backward
# through a base-size layer on two CPU cores, blocks were faster from 2.2, 1.9
# and 1.3 times W for windows of 16, 64 and 256.
_MIN_LENGTH_RATIO = 2


def split_into_blocks(queries, keys, values, mask, window):
    """Splits the inputs of scaled dot-product attention, if that is faster.

    Takes float [B, H, n, d], an AttentionMask, with whose matrix there are no
    blocks, and r. Returns queries, keys and values, float [B, H, C, L or W, d],
    and their mask, boolean [B, 1, C, L, W]; or the unchanged inputs and the
    mask [B, 1, n, n]. The output of a query that may attend to nothing is
    finite and arbitrary.
    """
    length = ops.shape(queries)[2]
    size = block_size(length, window)
    if mask.matrix is not None or size is length:
        return queries, keys, values, mask.materialize(length, window)
    margin = _where(size < length, window, 0)
    sides = margin, 0 if mask.causal else margin
    return (
        _split(queries, size),
        _split_with_margins(keys, size, sides),
        _split_with_margins(values, size, sides),
        _block_mask(mask, length, window, size, sides),
    )


def join_blocks(outputs, length):
    """Joins blocks [B, H, C, L, d] into [B, H, n, d]; keeps rank 4."""
    if len(outputs.shape) == 4:
        return outputs
    batch, heads = ops.shape(outputs)[:2]
    width = outputs.shape[-1]
    outputs = ops.reshape(outputs, (batch, heads, -1, width))
    return ops.slice(outputs, (0, 0, 0, 0), (batch, heads, length, width))


def block_size(length, window):
    """Returns L, or n itself for short sequences, which are one block.

    L is a tensor if n is one, as in a TensorFlow graph. JAX's symbolic
    dimensions cannot be compared and count as short.
    """
    if not isinstance(length, int) and not ops.is_tensor(length):
        return length
    size = max(window, _MIN_BLOCK_SIZE)
    return _where(
        length > _MIN_LENGTH_RATIO * (size + 2 * window), size, length
    )


def _where(condition, one, other):
    if isinstance(condition, bool):
        return one if condition else other
    return ops.where(condition, one, other)


def _block_mask(mask, length, window, size, sides):
    """Returns a mask for the queries of each block: boolean [B, 1, C, L, W]."""
    distance = ops.arange(size + sum(sides)) - sides[0]
    distance = distance - ops.arange(size)[:, None]
    farthest = 0 if mask.causal else window
    near = ops.logical_and(distance >= -window, distance <= farthest)
    # Margins beyond both ends are filled with 0, that is False.
    real = ops.ones((1, length), dtype="bool")
    if mask.keys is not None:
        # Joined, since the mask may broadcast over the length.
        real = ops.logical_and(real, mask.keys)
    real = _split_with_margins(real[:, None, :, None], size, sides)
    allowed = ops.logical_and(near, real[..., None, :, 0])
    if mask.segments is None:
        return allowed
    segments = mask.segments[:, None, :, None]
    key_segments = _split_with_margins(segments, size, sides)[..., None, :, 0]
    same = ops.equal(_split(segments, size), key_segments)
    return ops.logical_and(allowed, same)


def _split(positions, size):
    """Splits [B, H, n, d] into [B, H, C, L, d]; pads the last with 0."""
    batch, heads, length, width = ops.shape(positions)
    positions = _pad(positions, 0, -length % size)
    return ops.reshape(positions, (batch, heads, -1, size, width))


def _split_with_margins(positions, size, sides):
    """Splits [B, H, n, d] into [B, H, C, W, d]; 0 beyond the ends."""
    left, right = sides
    blocks = _split(_pad(positions, size, size), size)
    batch, heads, count, _, width = ops.shape(blocks)

    def piece(block, first, length):
        # TensorFlow's gradient of an index with colons is ten times slower.
        return ops.slice(
            blocks,
            (0, 0, block, first, 0),
            (batch, heads, count - 2, length, width),
        )

    pieces = [
        piece(0, size - left, left),
        piece(1, 0, size),
        piece(2, 0, right),
    ]
    return ops.concatenate(pieces, axis=3)


def _pad(positions, before, after):
    """Pads the positions of [B, H, n, d] with 0."""
    batch, heads, _, width = ops.shape(positions)

    def zeros(length):
        return ops.zeros((batch, heads, length, width), dtype=positions.dtype)

    return ops.concatenate([zeros(before), positions, zeros(after)], axis=2)
