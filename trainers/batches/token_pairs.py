"""Sentence pairs of token ids, read in place from their shards."""

import numpy as np


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
        kept = longer <= max_tokens
        if kept.all():
            return self
        fewer = TokenPairs([])
        fewer.source_lengths = self.source_lengths[kept]
        fewer.target_lengths = self.target_lengths[kept]
        fewer.dropped = self.dropped + int((~kept).sum())
        fewer._ids = self._ids
        fewer._shard, fewer._start = self._shard[kept], self._start[kept]
        return fewer

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
            here = shard_of == shard
            result[here] = self._ids[shard][indices[here]]
        return result


def ranges(starts, lengths):
    """Concatenates the ranges of lengths[i] integers from starts[i]."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def decode_pairs(tokenizer, pairs, numbers):
    """Returns sources and targets of the numbered TokenPairs as text."""
    return (
        tokenizer.source.decode(
            _pad(pairs.sources(numbers), pairs.source_lengths[numbers])
        ),
        tokenizer.target.decode(
            _pad(pairs.targets(numbers), pairs.target_lengths[numbers])
        ),
    )


def _pad(ids, lengths):
    padded = np.zeros((len(lengths), lengths.max(initial=1)), np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = ids
    return padded
