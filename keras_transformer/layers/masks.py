"""Attention masks: sections 3.2.3 and 4.

Masks are boolean, True where a query may attend to a key. Letters: B batch, Q
queries, M keys, H heads.
"""

import dataclasses
import functools
import typing

from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.ids import arange
from keras_transformer.types import Tensor, TensorLike


@dataclasses.dataclass(frozen=True)
class AttentionMask:
    """A self-attention mask as a conjunction of conditions.

    The mask [B, Q, Q] is materialized only where the scores are too.

    Attributes:
        keys: boolean [B, Q], keys that may be attended to; None for all.
        segments: int32 [B, Q], index of the sentence pair at each position of
            packed rows; attention stays within a pair. None for unpacked rows.
        causal: whether no position may attend to later ones.
        matrix: boolean [B, Q, Q] or [B, H, Q, Q]; None for everywhere.
    """

    keys: Tensor | None = None
    segments: Tensor | None = None
    causal: bool = False
    matrix: Tensor | None = None

    @classmethod
    def standardize(
        cls, mask: "AttentionMask | TensorLike | None", states: Tensor
    ) -> typing.Self:
        """Returns an AttentionMask for the `attention_mask` of a layer."""
        if mask is None or isinstance(mask, cls):
            return mask or cls()
        keys: Tensor = validate_mask(mask, states, states)
        if any(size != 1 for size in keys.shape[1:-1]):
            return cls(matrix=keys)
        while len(keys.shape) > 2:
            keys = keys[:, 0]
        return cls(keys=keys)

    def with_keys(self, *masks: Tensor | None) -> typing.Self:
        """Adds key masks, [B, Q] or None, to the conditions."""
        given = [mask for mask in (self.keys, *masks) if mask is not None]
        keys = functools.reduce(ops.logical_and, given) if given else None
        return dataclasses.replace(self, keys=keys)

    def materialize(
        self, length: int | Tensor, window: int = 0
    ) -> Tensor | None:
        """Returns the mask for Q = `length` positions: rank 4, or None."""
        positions = arange(length)
        distance = positions[:, None] - positions[None, :]
        segments = self.segments
        return join_masks(
            self.matrix,
            self.keys,
            None if segments is None else segment_mask(segments, segments),
            (distance >= 0)[None] if self.causal else None,
            (ops.abs(distance) <= window)[None] if window else None,
        )


def build_attention_masks(
    inputs: dict[str, Tensor],
) -> dict[str, typing.Any]:
    """Returns the masks of a Transformer for its dict of inputs.

    `source` and `target` are AttentionMasks of self-attention; `memory`, of
    cross-attention, is boolean, broadcastable to [B, T, S].
    """
    source, target = inputs["source"], inputs["target"]
    source_segments = inputs.get("source_segments")
    target_segments = inputs.get("target_segments")
    if (source_segments is None) != (target_segments is None):
        raise ValueError(
            "Packed rows need both source_segments and target_segments."
        )
    memory_mask = padding_mask(source)
    if source_segments is not None:
        same_pair = segment_mask(target_segments, source_segments)
        memory_mask = ops.logical_and(same_pair, memory_mask)
    return {
        "source": AttentionMask(ops.not_equal(source, PAD_ID), source_segments),
        "target": AttentionMask(ops.not_equal(target, PAD_ID), target_segments),
        "memory": memory_mask,
    }


def padding_mask(ids: TensorLike) -> Tensor:
    """Returns True where an id is not padding: [B, 1, M] for [B, M]."""
    return ops.expand_dims(ops.not_equal(ids, PAD_ID), 1)


def segment_mask(query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """Returns where int32 [B, Q] and [B, M] are equal: boolean [B, Q, M]."""
    return ops.equal(query_segments[:, :, None], key_segments[:, None, :])


def join_masks(*masks: Tensor | None) -> Tensor | None:
    """Returns where all masks are True: rank 4, or None.

    Masks are [B, M], [B, Q, M] or [B, H, Q, M], broadcastable to one another,
    or None, which allows everything.
    """
    given = [add_head_axis(mask) for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, given) if given else None


def validate_mask(
    mask: TensorLike | None, queries: Tensor, keys: Tensor
) -> Tensor | None:
    """Returns a mask as a boolean tensor of a checked shape.

    The mask is boolean or numeric, nonzero where a query may attend: [B, M], or
    broadcastable to [B, Q, M] or [B, H, Q, M] for queries [B, Q, D] and keys
    [B, M, D]; None stays None. Another shape raises ValueError.
    """
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    (batch, length), num_keys = queries.shape[:2], keys.shape[1]
    expected = {
        2: (batch, num_keys),
        3: (batch, length, num_keys),
        4: (batch, None, length, num_keys),
    }.get(len(mask.shape))
    if expected is None or not all(
        size in (1, None, expected_size) or expected_size is None
        for size, expected_size in zip(mask.shape, expected)
    ):
        raise ValueError(
            "An attention mask must be [batch, keys], or broadcast to [batch, "
            f"queries, keys], {[batch, length, num_keys]}, or to [batch, "
            f"heads, queries, keys]; not {tuple(mask.shape)}."
        )
    if batch is None and mask.shape[0] not in (1, None):
        # Raises at run time if the batch has another size.
        mask = ops.reshape(mask, (ops.shape(queries)[0], *mask.shape[1:]))
    return ops.cast(mask, "bool")


def add_head_axis(mask: Tensor | None) -> Tensor | None:
    """Expands [B, M] or [B, Q, M] to the rank of [B, H, Q, M]; keeps None."""
    while mask is not None and len(mask.shape) < 4:
        mask = mask[:, None]
    return mask
