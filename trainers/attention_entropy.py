"""How spread out attention is."""

import numpy as np


def attention_entropy(weights):
    """Returns the mean entropy of every head's rows, in nats.

    0 where a head looks at one token alone, log M where it looks at M tokens
    alike.

    Args:
        weights: float [L, H, Q, M], rows that sum to 1.

    Returns:
        float64 [L, H].
    """
    weights = weights.astype(np.float64)
    logarithms = np.log(np.where(weights > 0.0, weights, 1.0))
    return -(weights * logarithms).sum(axis=-1).mean(axis=-1)
