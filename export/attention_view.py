"""Which part of all attention a picture shows."""

import dataclasses

KINDS = ("encoder", "decoder", "cross")
UNITS = ("words", "pieces")


@dataclasses.dataclass(frozen=True)
class AttentionView:
    """A choice of what to show; all numbers count from 0.

    Attributes:
        kind: "encoder" or "decoder" for their self-attention, or "cross".
        layer: number of the layer.
        heads: numbers of the heads, in ascending order.
        unit: "words" or "pieces".
        word: number of the word (or piece) that looks and whose lines alone
            are shown; None for the lines of all.
    """

    kind: str
    layer: int
    heads: tuple[int, ...]
    unit: str = "words"
    word: int | None = None
