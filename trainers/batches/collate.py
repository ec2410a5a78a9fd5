"""Collates the pairs of a batch into arrays of ids, padded or packed.

Uses only NumPy, for training with backends other than TensorFlow.
"""

import numpy as np

from keras_transformer.config import BEGIN_ID
from trainers.batches.token_pairs import ranges


def shard_for_replica(arrays, replica, replicas):
    """Returns one replica's rows of the global batch, (inputs, labels).

    Numbers of rows differ by at most one. trainers/training/training_model.py
    combines the losses of the replicas.
    """
    inputs, labels = arrays
    first, last = (
        len(labels) * end // replicas for end in (replica, replica + 1)
    )
    rows = {name: array[first:last] for name, array in inputs.items()}
    return rows, labels[first:last]


def make_batch(pairs, batch):
    """Returns inputs and labels of a Batch with one pair per row.

    They are ({"source", "target"}, labels), int32 [B, S], [B, T] and [B, T].
    """
    return _make_batch(pairs, batch, is_packed=False)


def make_packed_batch(pairs, batch):
    """Returns inputs and labels of a Batch with several pairs per row.

    In addition to those of `make_batch`, the inputs have `source_segments`,
    `target_segments`, `source_positions` and `target_positions`.
    """
    return _make_batch(pairs, batch, is_packed=True)


def _make_batch(pairs, batch, is_packed):
    rows, *widths = batch.shape
    source, target = (
        _Layout(lengths[batch.pairs], batch.rows, (rows, width))
        for lengths, width in zip(
            (pairs.source_lengths, pairs.target_lengths), widths
        )
    )
    labels = target.scatter(pairs.targets(batch.pairs))
    inputs = {
        "source": source.scatter(pairs.sources(batch.pairs)),
        "target": target.shift_right(labels),
    }
    if is_packed:
        for name, layout in (("source", source), ("target", target)):
            inputs[f"{name}_segments"] = layout.segments()
            inputs[f"{name}_positions"] = layout.positions()
    return inputs, labels


class _Layout:
    """Positions of the sentences of one side in the array of a batch."""

    def __init__(self, lengths, rows, shape):
        self._lengths, self._shape = lengths, shape
        self._first_of_row = np.searchsorted(rows, rows)
        before = np.cumsum(lengths) - lengths
        columns = before - before[self._first_of_row]
        self._starts = rows.astype(np.int64) * shape[1] + columns
        self._indices = ranges(self._starts, lengths)

    def scatter(self, values):
        """Returns int32 [rows, L] with one value per token, 0 elsewhere."""
        array = np.zeros(self._shape, np.int32)
        array.reshape(-1)[self._indices] = values
        return array

    def shift_right(self, labels):
        """Returns the decoder's input: labels after the begin id, no end id."""
        target = np.roll(labels, 1, axis=1)
        target.reshape(-1)[self._starts] = BEGIN_ID
        # The shifted end id of a row that is not full is now on padding.
        target[labels == 0] = 0
        return target

    def segments(self):
        """Returns the number of each token's sentence in its row, from 1."""
        numbers = np.arange(len(self._lengths)) - self._first_of_row + 1
        return self.scatter(np.repeat(numbers, self._lengths))

    def positions(self):
        """Returns the position of each token in its sentence, from 0."""
        return self.scatter(
            ranges(np.zeros(len(self._lengths), np.int64), self._lengths)
        )
