"""How far two translators agree."""

import typing

import numpy as np


class Difference(typing.NamedTuple):
    """Of scores, without the sign.

    Attributes:
        mean: over the sentences; 0 where there are none.
        largest: of them.
    """

    mean: float
    largest: float


class Agreement(typing.NamedTuple):
    """Two lists of translations of the same sentences, compared.

    Attributes:
        sentences: how many there are.
        identical: how many translations read the same.
        where_identical: Difference of these.
        everywhere: Difference of all.
    """

    sentences: int
    identical: int
    where_identical: Difference
    everywhere: Difference


def agreement(ours, theirs):
    """Compares translations one by one.

    Args:
        ours: list of Translation.
        theirs: list of Translation of the same sentences.

    Returns:
        Agreement.
    """
    pairs = list(zip(ours, theirs, strict=True))
    same = np.array([one.text == other.text for one, other in pairs], bool)
    apart = np.array([abs(one.score - other.score) for one, other in pairs])
    return Agreement(
        len(pairs),
        int(same.sum()),
        _difference(apart[same]),
        _difference(apart),
    )


def _difference(values):
    if not values.size:
        return Difference(0.0, 0.0)
    return Difference(float(values.mean()), float(values.max()))
