"""Sentence pairs of token ids, read in place, and batches of them as arrays.

Uses only NumPy, for training with backends other than TensorFlow.
"""

import copy
import re
import typing
from collections.abc import Sequence

import numpy as np

from export.tokenizers.tags import TAG
from keras_transformer.config import BEGIN_ID
from trainers.batches.batch_plan import Batch

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.python_tokenizers import PythonTokenizerPair

# Inputs and labels of a batch.
Arrays = tuple[dict[str, np.ndarray], np.ndarray]


class TokenPairs:
    """Sentence pairs of ids; every sentence ends with the end id.

    Made from a list of shards (ids, lengths): ids, int [tokens], the source and
    then the target of each pair, may be a memory map; lengths are int
    [pairs, 2].
    """

    def __init__(self, shards: Sequence[tuple[np.ndarray, np.ndarray]]):
        self._ids = [ids for ids, _ in shards]
        lengths: typing.Any = [each.astype(np.int32) for _, each in shards]
        totals = [each.sum(axis=1, dtype=np.int64) for each in lengths]
        starts = [np.cumsum(each) - each for each in totals]
        shard_ids = np.arange(len(shards), dtype=np.int32)
        self._shard_ids = np.repeat(shard_ids, [len(each) for each in lengths])
        # The empty arrays are for a split without shards.
        self._starts = np.concatenate([np.zeros(0, np.int64), *starts])
        lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        self.source_lengths, self.target_lengths = lengths.T.copy()

    def __len__(self) -> int:
        return len(self.source_lengths)

    def filter_by_length(self, max_tokens: int) -> "TokenPairs":
        """Returns the pairs with at most `max_tokens` ids on each side."""
        longer = np.maximum(self.source_lengths, self.target_lengths)
        fits = longer <= max_tokens
        if fits.all():
            return self
        shorter = copy.copy(self)
        shorter.source_lengths = self.source_lengths[fits]
        shorter.target_lengths = self.target_lengths[fits]
        shorter._shard_ids = self._shard_ids[fits]
        shorter._starts = self._starts[fits]
        return shorter

    def sources(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the concatenated source ids of pairs: int32 [tokens]."""
        lengths = self.source_lengths[indices]
        return self._gather(indices, self._starts[indices], lengths)

    def targets(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the concatenated target ids of pairs: int32 [tokens]."""
        starts = self._starts[indices] + self.source_lengths[indices]
        return self._gather(indices, starts, self.target_lengths[indices])

    def _gather(self, indices, starts, lengths):
        positions = ranges(starts, lengths)
        shard_ids = np.repeat(self._shard_ids[indices], lengths)
        result = np.empty(len(positions), np.int32)
        for shard_id in np.unique(self._shard_ids[indices]):
            in_shard = shard_ids == shard_id
            result[in_shard] = self._ids[shard_id][positions[in_shard]]
        return result


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates the ranges of lengths[i] integers from starts[i]."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def decode_pairs(
    tokenizer: "TokenizerPair | PythonTokenizerPair",
    pairs: TokenPairs,
    indices: Sequence[int] | np.ndarray,
) -> tuple[list[str], list[str]]:
    """Returns sources and targets of TokenPairs as two lists of text."""
    sides = (
        (
            tokenizer.source,
            pairs.sources(indices),
            pairs.source_lengths[indices],
        ),
        (
            tokenizer.target,
            pairs.targets(indices),
            pairs.target_lengths[indices],
        ),
    )
    sources, targets = (_decode(*side) for side in sides)
    # Languages are control tokens, which `decode` omits.
    tagged = sides[: tokenizer.source.num_tags]
    tags = (_first_tags(*side) for side in tagged)
    return ["".join(each) for each in zip(*tags, sources)], targets


def _first_tags(tokenizer, ids, lengths):
    """Returns the first token of each row if it is a tag, else ""."""
    firsts = ids[np.cumsum(lengths) - lengths]
    tokens = (tokenizer.id_to_token(each) for each in firsts.tolist())
    return [each if re.fullmatch(TAG, each) else "" for each in tokens]


def _decode(tokenizer, ids, lengths):
    shape = len(lengths), lengths.max(initial=1)
    layout = _Layout(lengths, np.arange(len(lengths)), shape)
    return tokenizer.decode(layout.scatter(ids))


def shard_for_replica(arrays: Arrays, replica: int, replicas: int) -> Arrays:
    """Returns one replica's rows of the global batch, (inputs, labels).

    Replicas' row counts differ by at most one.
    """
    inputs, labels = arrays
    first = len(labels) * replica // replicas
    last = len(labels) * (replica + 1) // replicas
    rows = {name: array[first:last] for name, array in inputs.items()}
    return rows, labels[first:last]


def make_batch(pairs: TokenPairs, batch: Batch, packed: bool = False) -> Arrays:
    """Returns inputs and labels of a Batch.

    They are ({"source", "target"}, labels), int32 [B, S], [B, T] and [B, T].
    If rows are packed with several pairs, the inputs also have segments and
    positions of both sides.
    """
    rows, source_length, target_length = batch.shape
    indices = batch.pair_indices
    source_lengths = pairs.source_lengths[indices]
    target_lengths = pairs.target_lengths[indices]
    source = _Layout(source_lengths, batch.rows, (rows, source_length))
    target = _Layout(target_lengths, batch.rows, (rows, target_length))
    labels = target.scatter(pairs.targets(indices))
    inputs = {
        "source": source.scatter(pairs.sources(indices)),
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
        """Returns the 1-based index of each token's sentence in its row."""
        segment_ids = np.arange(len(self._lengths)) - self._first_of_row + 1
        return self.scatter(np.repeat(segment_ids, self._lengths))

    def positions(self):
        """Returns the 0-based position of each token in its sentence."""
        return self.scatter(
            ranges(np.zeros(len(self._lengths), np.int64), self._lengths)
        )
