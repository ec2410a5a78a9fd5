"""Rows of weights as whole numbers that keep their sum."""

import numpy as np

# What a weight of 1 becomes. Steps of 0.02 % are finer than what the page says
# in numbers, and compress to half of what 16 bits do.
ONE = 4095


def rounded_rows(weights):
    """Rounds rows that sum to 1 to whole numbers.

    Plain rounding would let long rows drift from their sum.

    Args:
        weights: float [..., K], not negative; rows sum to 1, but for
            floating-point rounding.

    Returns:
        uint16 [..., K]: each row sums to 4095, no number is more than 1 from
        4095 times its weight, and a weight of 0 is 0.
    """
    weights = np.asarray(weights, np.float64)
    exact = ONE * weights / weights.sum(axis=-1, keepdims=True)
    # A sum that is rounded at each step ends at ONE.
    sums = np.rint(np.cumsum(exact, axis=-1))
    return np.diff(sums, axis=-1, prepend=0).astype(np.uint16)
