"""Sentence pairs as ids, read in place from their shards."""

import numpy as np


class TokenPairs:
    """Many sentence pairs, every sentence ending with the end id.

    Args:
        shards: sequence of (ids, lengths): ids int [tokens], source and
            target of each pair one after the other, which may be a memory
            map; lengths int [pairs, 2].

    Attributes:
        source_lengths: int32 [pairs], ids of each source.
        target_lengths: int32 [pairs], ids of each target.
        dropped: pairs left out by `filter_by_length`.
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
        self._start = np.concatenate(
            [np.zeros(0, np.int64), *map(_starts_in_shard, lengths)]
        )

    def __len__(self):
        return len(self.source_lengths)

    def filter_by_length(self, max_tokens):
        """Returns the pairs with no side of more ids than `max_tokens`."""
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
        """Returns some sources' ids one after the other: int32 [tokens].

        Args:
            pairs: int64 [N], numbers of pairs.
        """
        return self._gather(pairs, self._start, self.source_lengths[pairs])

    def targets(self, pairs):
        """Returns some targets' ids one after the other: int32 [tokens].

        Args:
            pairs: int64 [N], numbers of pairs.
        """
        lengths = self.target_lengths[pairs]
        return self._gather(pairs, self._start, lengths, self.source_lengths)

    def _gather(self, pairs, starts, lengths, skipped=None):
        starts = starts[pairs]
        if skipped is not None:
            starts = starts + skipped[pairs]
        places = ranges(starts, lengths)
        shard_of = np.repeat(self._shard[pairs], lengths)
        result = np.empty(len(places), np.int32)
        for shard in np.unique(self._shard[pairs]):
            here = shard_of == shard
            result[here] = self._ids[shard][places[here]]
        return result


def ranges(starts, lengths):
    """Returns starts[0], starts[0] + 1, ... lengths[0] of them, and so on.

    Args:
        starts: int64 [N].
        lengths: int [N].

    Returns:
        int64 [sum of lengths].
    """
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _starts_in_shard(lengths):
    both = lengths.sum(axis=1, dtype=np.int64)
    return np.cumsum(both) - both


def decode_pairs(tokenizer, pairs, numbers):
    """Returns sources and references, in the vocabulary's own spelling.

    Args:
        tokenizer: Tokenizer or TokenizerPair.
        pairs: TokenPairs.
        numbers: int [N], of the pairs.

    Returns:
        Two lists of str.
    """
    return (
        tokenizer.source.decode(
            _rows(pairs.sources(numbers), pairs.source_lengths[numbers])
        ),
        tokenizer.target.decode(
            _rows(pairs.targets(numbers), pairs.target_lengths[numbers])
        ),
    )


def _rows(ids, lengths):
    matrix = np.zeros((len(lengths), lengths.max(initial=1)), np.int32)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = ids
    return matrix
