"""Rows of weights as whole numbers that keep their sum."""

import numpy as np

# What a weight of 1 becomes: the largest uint16.
ONE = 65535


def rounded_rows(weights):
    """Rounds rows that sum to 1 to 16 bits, by largest remainders.

    Plain rounding would let long rows drift from their sum.

    Args:
        weights: float [..., K], not negative; rows sum to 1, but for
            floating-point rounding.

    Returns:
        uint16 [..., K]: each row sums to 65535, and no number is 1 or more
        from 65535 times its weight.
    """
    weights = np.asarray(weights, np.float64)
    exact = ONE * weights / weights.sum(axis=-1, keepdims=True)
    whole = np.floor(exact)
    missing = ONE - whole.sum(axis=-1, keepdims=True)
    order = np.argsort(whole - exact, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    return (whole + (rank < missing)).astype(np.uint16)
