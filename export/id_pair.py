"""A sentence and its translation as a model sees them."""

import typing

import numpy as np


class IdPair(typing.NamedTuple):
    """A source and a target, each ending with the end id.

    Attributes:
        source: int32 [S].
        target: int32 [T].
        source_is_cut: whether the source was longer than the model takes.
        target_is_cut: the same of a target that was given.
    """

    source: np.ndarray
    target: np.ndarray
    source_is_cut: bool
    target_is_cut: bool = False

    @property
    def length(self):
        """Ids of the longer side; 1 where there is nothing to translate."""
        if len(self.source) == 1:
            return 1
        return max(len(self.source), len(self.target))


def padded(rows, width=None):
    """Returns a list of int arrays as one int32 [B, width], 0 after each.

    Args:
        rows: list of int arrays.
        width: the longest's by default.
    """
    width = width or max(map(len, rows))
    matrix = np.zeros((len(rows), width), np.int32)
    for row, ids in zip(matrix, rows):
        row[: len(ids)] = ids
    return matrix
