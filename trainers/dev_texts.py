"""Sentence pairs of stored pieces as text again."""

import numpy as np


def texts_of(tokenizer, pairs, numbers):
    """Returns sources and references, in the vocabulary's own spelling.

    Args:
        tokenizer: Tokenizer.
        pairs: TokenPairs.
        numbers: int [N], of the pairs.

    Returns:
        Two lists of str.
    """
    return (
        tokenizer.decode(
            _rows(pairs.sources(numbers), pairs.source_lengths[numbers])
        ),
        tokenizer.decode(
            _rows(pairs.targets(numbers), pairs.target_lengths[numbers])
        ),
    )


def _rows(ids, lengths):
    matrix = np.zeros((len(lengths), lengths.max(initial=1)), np.int32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = ids
    return matrix
