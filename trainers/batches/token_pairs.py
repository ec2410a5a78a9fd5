"""Sentence pairs of token ids, read in place, and batches of them as arrays.

Uses only NumPy, for training with backends other than TensorFlow.
"""

import copy

import numpy as np

from keras_transformer.config import BEGIN_ID


class TokenPairs:
    """Sentence pairs of ids; every sentence ends with the end id.

    Made from a list of shards (ids, lengths): ids, int [tokens], may be a
    memory map and hold source and target of each pair in turn; lengths are int
    [pairs, 2]. `dropped` counts the pairs removed by `filter_by_length`.
    """

    def __init__(self, shards):
        lengths = [lengths.astype(np.int32) for _, lengths in shards]
        joined = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        self.source_lengths, self.target_lengths = joined.T.copy()
        self.dropped = 0
        self._ids = [ids for ids, _ in shards]
        self._shard = np.repeat(
            np.arange(len(shards), dtype=np.int32), [len(n) for n in lengths]
        )
        totals = [n.sum(axis=1, dtype=np.int64) for n in lengths]
        self._start = np.concatenate(
            [np.zeros(0, np.int64), *(np.cumsum(n) - n for n in totals)]
        )

    def __len__(self):
        return len(self.source_lengths)

    def filter_by_length(self, max_tokens):
        """Returns the pairs with at most `max_tokens` ids on each side."""
        longer = np.maximum(self.source_lengths, self.target_lengths)
        fits = longer <= max_tokens
        if fits.all():
            return self
        shorter = copy.copy(self)
        shorter.source_lengths = self.source_lengths[fits]
        shorter.target_lengths = self.target_lengths[fits]
        shorter._shard, shorter._start = self._shard[fits], self._start[fits]
        shorter.dropped += int((~fits).sum())
        return shorter

    def sources(self, pairs):
        """Returns the concatenated source ids of pairs: int32 [tokens]."""
        return self._gather(
            pairs, self._start[pairs], self.source_lengths[pairs]
        )

    def targets(self, pairs):
        """Returns the concatenated target ids of pairs: int32 [tokens]."""
        starts = self._start[pairs] + self.source_lengths[pairs]
        return self._gather(pairs, starts, self.target_lengths[pairs])

    def _gather(self, pairs, starts, lengths):
        indices = ranges(starts, lengths)
        shard_of = np.repeat(self._shard[pairs], lengths)
        result = np.empty(len(indices), np.int32)
        for shard in np.unique(self._shard[pairs]):
            in_shard = shard_of == shard
            result[in_shard] = self._ids[shard][indices[in_shard]]
        return result


def ranges(starts, lengths):
    """Concatenates the ranges of lengths[i] integers from starts[i]."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def decode_pairs(tokenizer, pairs, numbers):
    """Returns sources and targets of the numbered TokenPairs as text."""
    sources, targets = pairs.sources(numbers), pairs.targets(numbers)
    return (
        _decode(tokenizer.source, sources, pairs.source_lengths[numbers]),
        _decode(tokenizer.target, targets, pairs.target_lengths[numbers]),
    )


def _decode(tokenizer, ids, lengths):
    shape = len(lengths), lengths.max(initial=1)
    layout = _Layout(lengths, np.arange(len(lengths)), shape)
    return tokenizer.decode(layout.scatter(ids))


def shard_for_replica(arrays, replica, replicas):
    """Returns one replica's rows of the global batch, (inputs, labels).

    Numbers of rows of replicas differ by at most one.
    """
    inputs, labels = arrays
    first, last = (
        len(labels) * end // replicas for end in (replica, replica + 1)
    )
    rows = {name: array[first:last] for name, array in inputs.items()}
    return rows, labels[first:last]


def make_batch(pairs, batch, packed=False):
    """Returns inputs and labels of a Batch.

    They are ({"source", "target"}, labels), int32 [B, S], [B, T] and [B, T].
    If rows are packed with several pairs, the inputs also have segments and
    positions of both sides.
    """
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
    if packed:
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
