"""A sentence's attention as pictures take it: by unit and by kind."""

import typing

import numpy as np

from export.merged_words import merged_words


class AttentionPart(typing.NamedTuple):
    """One kind of attention, between words or between pieces.

    Attributes:
        rows: tuple of str [Q]: the tokens that look.
        columns: tuple of str [M]: the tokens that are looked at.
        weights: float32 [L, H, Q, M] of L layers with H heads; rows sum to 1.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: np.ndarray


class AttendedSentence:
    """Attention in one sentence pair.

    Args:
        maps: AttentionMaps of pieces.

    Attributes:
        maps: as given.
        layers: number of layers.
        heads: number of heads of a layer.
    """

    KINDS = ("encoder", "decoder", "cross")
    UNITS = ("words", "pieces")

    def __init__(self, maps):
        self.maps = maps
        self.layers, self.heads = maps.encoder.shape[:2]
        self._units = {"words": merged_words(maps), "pieces": maps}

    def part(self, unit, kind):
        """Returns the AttentionPart of a unit and a kind."""
        maps = self._units[unit]
        rows, columns = {
            "encoder": (maps.source_tokens, maps.source_tokens),
            "decoder": (maps.target_tokens, maps.target_inputs),
            "cross": (maps.target_tokens, maps.source_tokens),
        }[kind]
        return AttentionPart(rows, columns, getattr(maps, kind))

    def find(self, unit, kind, word):
        """Finds a word among those that look.

        Args:
            unit: of `UNITS`.
            kind: of `KINDS`.
            word: str, with its punctuation or without.

        Returns:
            The number of the first row that is the word; None if none is.
        """
        rows = [token.strip(_SPACE) for token in self.part(unit, kind).rows]
        for names in (rows, [row.strip(_PUNCTUATION) for row in rows]):
            if word in names:
                return names.index(word)
        return None


_SPACE = "\u2581 "
_PUNCTUATION = ".,;:!?()\u00ab\u00bb\"'\u201c\u201d\u2026\u00a0 "
