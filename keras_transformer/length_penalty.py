"""The length penalty that makes hypotheses of different length comparable."""

from keras import ops


def length_penalty(length, alpha, kind="gnmt"):
    """Returns what a log-probability is divided by.

    Args:
        length: int32 [...], tokens of the hypothesis, the end id counted.
        alpha: exponent; 0 gives 1 for every length.
        kind: "gnmt": ((5 + length) / 6) ** alpha (section 6.1, from Wu et
            al. 2016), or "power": length ** alpha.

    Returns:
        float32 [...].

    Raises:
        ValueError: there is no such kind.
    """
    length = ops.cast(length, "float32")
    if kind == "gnmt":
        return ops.power((5.0 + length) / 6.0, alpha)
    if kind == "power":
        return ops.power(length, alpha)
    raise ValueError(f"length_penalty must be gnmt or power, not {kind!r}.")
