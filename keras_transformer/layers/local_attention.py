"""Local (restricted) self-attention in blocks: section 4.

A position attends to those at most r away. Queries are split into blocks, which
attend to the keys of their own block and r on either side (causal: on the
left), so that time and memory grow with n r instead of n^2.

Letters: B batch, H heads, n positions, r window, C blocks of L positions, W
keys per block: L + 2r, or causal L + r.
"""

from keras import ops

from keras_transformer.ids import arange
from keras_transformer.layers.masks import AttentionMask
from keras_transformer.types import Tensor

# Smaller blocks have fewer masked keys but smaller products: 32 to 128 are
# equally fast, forward and backward, for windows of 16 and 64.
_MIN_BLOCK_SIZE = 64

# Sequences longer than this many times L + 2r, also if causal, are split.
# Forward and backward through a base-size layer on two CPU cores, blocks were
# faster from 2.2, 1.9 and 1.3 times L + 2r for windows of 16, 64 and 256.
_MIN_LENGTH_RATIO = 2


def split_into_blocks(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: AttentionMask,
    window: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splits the inputs of scaled dot-product attention, if that is faster.

    Takes float [B, H, n, d], an AttentionMask and r. Returns queries, keys and
    values, float [B, H, C, L or W, d], and their mask, boolean [B, 1, C, L, W].
    If the mask has a matrix, or n is known to be short when traced, returns the
    unchanged inputs and the mask [B, 1, n, n]. The output of a query that may
    attend to nothing is finite and arbitrary.
    """
    length = ops.shape(queries)[2]
    size = block_size(length, window)
    known_short = not ops.is_tensor(length) and size == length
    if known_short or mask.matrix is not None:
        return queries, keys, values, mask.materialize(length, window)
    # If n turns out to be short, its only block has no neighbours.
    left = _where(size < length, window, 0)
    margins = (left, 0 if mask.causal else left)
    return (
        _split(queries, size),
        _split_with_margins(keys, size, margins),
        _split_with_margins(values, size, margins),
        _block_mask(mask, length, window, size, margins),
    )


def join_blocks(outputs: Tensor, length: int | Tensor) -> Tensor:
    """Joins blocks [B, H, C, L, d] into [B, H, n, d]; keeps rank 4."""
    if len(outputs.shape) == 4:
        return outputs
    batch, heads = ops.shape(outputs)[:2]
    width = outputs.shape[-1]
    outputs = ops.reshape(outputs, (batch, heads, -1, width))
    return ops.slice(outputs, (0, 0, 0, 0), (batch, heads, length, width))


def block_size(length: int | Tensor, window: int) -> int | Tensor:
    """Returns L, or n for short sequences, which are one block.

    L is a tensor if n is one, as in a TensorFlow graph. A symbolic dimension of
    JAX, which cannot be compared, counts as short.
    """
    if not isinstance(length, int) and not ops.is_tensor(length):
        return length
    size = max(window, _MIN_BLOCK_SIZE)
    is_long = length > _MIN_LENGTH_RATIO * (size + 2 * window)
    return _where(is_long, size, length)


def _where(condition, if_true, if_false):
    if isinstance(condition, bool):
        return if_true if condition else if_false
    return ops.where(condition, if_true, if_false)


def _block_mask(mask, length, window, size, margins):
    """Returns a mask for the queries of each block: boolean [B, 1, C, L, W]."""
    left, right = margins
    distance = arange(left + size + right) - left
    distance = distance - arange(size)[:, None]  # [L, W]
    farthest = 0 if mask.causal else window
    in_window = ops.logical_and(distance >= -window, distance <= farthest)
    # Margins beyond both ends are filled with 0, that is False.
    keys = ops.ones((1, length), dtype="bool")
    if mask.keys is not None:
        # The mask may have length 1 and broadcast.
        keys = ops.logical_and(keys, mask.keys)
    # Split as [B, H, n, d] with H = d = 1.
    keys = _split_with_margins(keys[:, None, :, None], size, margins)
    allowed = ops.logical_and(in_window, keys[..., None, :, 0])
    if mask.segments is None:
        return allowed
    segments = mask.segments[:, None, :, None]
    key_segments = _split_with_margins(segments, size, margins)
    same_pair = ops.equal(_split(segments, size), key_segments[..., None, :, 0])
    return ops.logical_and(allowed, same_pair)


def _split(positions, size):
    """Splits [B, H, n, d] into [B, H, C, L, d]; pads the last block with 0."""
    batch, heads, length, width = ops.shape(positions)
    positions = _pad(positions, 0, -length % size)
    return ops.reshape(positions, (batch, heads, -1, size, width))


def _split_with_margins(positions, size, margins):
    """Splits [B, H, n, d] into [B, H, C, W, d]; 0 beyond the ends."""
    left, right = margins
    # A block of zeros on either side gives every block both neighbours: block c
    # is at index c + 1, between the blocks of its margins at c and c + 2.
    blocks = _split(_pad(positions, size, size), size)
    batch, heads, count, _, width = ops.shape(blocks)

    def slice_blocks(first_block, first_position, length):
        # TensorFlow's gradient of an index with colons is ten times slower.
        return ops.slice(
            blocks,
            (0, 0, first_block, first_position, 0),
            (batch, heads, count - 2, length, width),
        )

    left_margin = slice_blocks(0, size - left, left)
    right_margin = slice_blocks(2, 0, right)
    return ops.concatenate(
        [left_margin, slice_blocks(1, 0, size), right_margin], axis=3
    )


def _pad(positions, before, after):
    """Adds zeros before and after the positions of [B, H, n, d]."""
    batch, heads, _, width = ops.shape(positions)

    def zeros(length):
        return ops.zeros((batch, heads, length, width), dtype=positions.dtype)

    return ops.concatenate([zeros(before), positions, zeros(after)], axis=2)
