"""A batch's sentences as matrices of ids, one pair a row or several.

NumPy alone: whoever trains on another backend than TensorFlow needs no more.
"""

import numpy as np

from keras_transformer.config import BEGIN_ID
from trainers.batches.token_pairs import ranges


def shard_for_replica(arrays, replica, replicas):
    """Returns one replica's share of a batch.

    Args:
        arrays: (inputs, labels) of [rows, L].
        replica: its number, from 0.
        replicas: how many there are.

    Returns:
        (inputs, labels); the numbers of rows of two replicas differ by one
        at most.
    """
    inputs, labels = arrays
    first, last = (
        len(labels) * end // replicas for end in (replica, replica + 1)
    )
    parts = {name: array[first:last] for name, array in inputs.items()}
    return parts, labels[first:last]


def make_batch(pairs, batch):
    """Returns inputs and labels of a batch with one pair a row.

    Args:
        pairs: TokenPairs.
        batch: Batch.

    Returns:
        ({"source", "target"}, labels), int32 [rows, S], [rows, T] and
        [rows, T].
    """
    return _placed(pairs, batch, *_sides(pairs, batch))


def make_packed_batch(pairs, batch):
    """Returns inputs and labels of a batch with several pairs a row.

    Args:
        pairs: TokenPairs.
        batch: Batch.

    Returns:
        As `make_batch`, and in the inputs `source_segments`,
        `target_segments`, `source_positions`, `target_positions`.
    """
    sides = _sides(pairs, batch)
    inputs, labels = _placed(pairs, batch, *sides)
    for name, side in zip(("source", "target"), sides):
        inputs[f"{name}_segments"] = side.segments()
        inputs[f"{name}_positions"] = side.positions()
    return inputs, labels


def _placed(pairs, batch, source, target):
    labels = target.place(pairs.targets(batch.pairs))
    inputs = {
        "source": source.place(pairs.sources(batch.pairs)),
        "target": target.shifted(labels),
    }
    return inputs, labels


def _sides(pairs, batch):
    rows, source_length, target_length = batch.shape
    return (
        _Side(
            pairs.source_lengths[batch.pairs], batch.rows, (rows, source_length)
        ),
        _Side(
            pairs.target_lengths[batch.pairs], batch.rows, (rows, target_length)
        ),
    )


class _Side:
    """Where the sentences of one side of a batch stand in its matrix."""

    def __init__(self, lengths, rows, shape):
        self._lengths, self._shape = lengths, shape
        # rows is ascending: the first sentence of each row begins it.
        self._first_of_row = np.searchsorted(rows, rows)
        before = np.cumsum(lengths) - lengths
        columns = before - before[self._first_of_row]
        self._starts = rows.astype(np.int64) * shape[1] + columns
        self._places = ranges(self._starts, lengths)

    def place(self, values):
        """Puts one value a token into a matrix of 0: int32 [rows, L]."""
        matrix = np.zeros(self._shape, np.int32)
        matrix.reshape(-1)[self._places] = values
        return matrix

    def shifted(self, labels):
        """The decoder's input: each sentence one to the right."""
        target = np.roll(labels, 1, axis=1)
        target.reshape(-1)[self._starts] = BEGIN_ID
        # The decoder's input has no end id: where it would stand is padding.
        target[labels == 0] = 0
        return target

    def segments(self):
        """The number of each token's sentence in its row, from 1."""
        numbers = np.arange(len(self._lengths)) - self._first_of_row + 1
        return self.place(np.repeat(numbers, self._lengths))

    def positions(self):
        """The position of each token in its sentence, from 0."""
        return self.place(
            ranges(np.zeros(len(self._lengths), np.int64), self._lengths)
        )
