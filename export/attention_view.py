"""Which part of all attention a picture shows."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """A choice of what to show; all numbers count from 0.

    Attributes:
        kind: "encoder" or "decoder" for their self-attention, or "cross".
        layer: number of the layer.
        heads: tuple of the numbers of the heads, ascending.
        unit: "words" or "pieces".
        word: number of the row whose lines alone are shown; None for the
            lines of all.
    """

    kind: str
    layer: int
    heads: tuple[int, ...]
    unit: str = "words"
    word: int | None = None
