"""The batches that every system is timed with."""

import dataclasses
import pathlib

import numpy as np

from keras_transformer.special_ids import BEGIN_ID, END_ID

_SEED = 1


@dataclasses.dataclass(frozen=True)
class StepBatch:
    """One batch of random ids with the padding of a real one.

    Attributes:
        source: int32 [B, S], each row ending with the end id, then padding.
        target: int32 [B, T], the labels shifted right behind the begin id.
        labels: int32 [B, T].
        weight: batches of this shape in an epoch.
    """

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray
    weight: int

    @property
    def padded(self):
        """The model's inputs, one pair a row, and the labels."""
        return {"source": self.source, "target": self.target}, self.labels

    @property
    def target_tokens(self):
        """Real target tokens, the end id counted and padding not."""
        return int((self.labels != 0).sum())


def make_sorted_batches(
    source_lengths, target_lengths, vocabulary_size, tokens, shapes
):
    """Makes one batch of each shape that sorted pairs have.

    Pairs are sorted into buckets by their longer side, both sides are padded
    to the longest of their bucket, and the buckets are those that make the
    least padding.

    Args:
        source_lengths: int64 [pairs].
        target_lengths: int64 [pairs].
        vocabulary_size: V.
        tokens: positions on each side of a batch, at most.
        shapes: how many buckets there are, at most.

    Returns:
        List of StepBatch, from short to long rows.
    """
    longer = np.maximum(source_lengths, target_lengths)
    edges = _edges(np.bincount(longer), shapes)
    bucket_of = np.searchsorted(edges, longer)
    random = np.random.default_rng(_SEED)
    batches = []
    for number, length in enumerate(edges):
        pairs = np.flatnonzero(bucket_of == number)
        rows = min(max(tokens // length, 1), len(pairs))
        chosen = random.choice(pairs, rows, replace=False)
        source, labels = (
            _random_rows(lengths[chosen], length, vocabulary_size, random)
            for lengths in (source_lengths, target_lengths)
        )
        weight = -(-len(pairs) // rows)
        batches.append(_batch(source, labels, weight))
    return batches


def make_mixed_batches(
    source_lengths, target_lengths, vocabulary_size, tokens, number
):
    """Makes batches of pairs in the order of a shuffled corpus.

    Each takes as many pairs as the tokens allow, and pads either side to its
    longest, as the data loaders of most toolkits do.

    Args:
        source_lengths: int64 [pairs].
        target_lengths: int64 [pairs].
        vocabulary_size: V.
        tokens: positions on each side of a batch, at most.
        number: of batches.

    Returns:
        List of StepBatch.
    """
    random = np.random.default_rng(_SEED)
    order = random.permutation(len(source_lengths))
    batches = []
    for _ in range(number):
        longest = np.maximum.accumulate(
            np.maximum(source_lengths, target_lengths)[order]
        )
        places = np.arange(1, len(order) + 1)
        rows = max(int((longest * places <= tokens).sum()), 1)
        source, labels = (
            _random_rows(chosen, chosen.max(), vocabulary_size, random)
            for chosen in (
                lengths[order[:rows]]
                for lengths in (source_lengths, target_lengths)
            )
        )
        batches.append(_batch(source, labels, weight=1))
        order = np.roll(order, -rows)
    return batches


def _batch(source, labels, weight):
    target = np.roll(labels, 1, axis=1)
    target[:, 0] = BEGIN_ID
    target[labels == 0] = 0
    return StepBatch(source, target, labels, weight)


def _edges(counts, shapes):
    """Returns the padded lengths with the least padding, ascending.

    Args:
        counts: int64, how many pairs have which length.
        shapes: how many padded lengths, at most.
    """
    below = np.concatenate([[0], np.cumsum(counts)])
    lengths = np.arange(1, len(counts))
    # best[n]: positions, and edges, of all pairs of at most n tokens.
    best = [(n * below[n + 1], (n,)) for n in range(len(counts))]
    for _ in range(shapes - 1):
        best = [
            min(
                [best[n]]
                + [
                    (
                        best[m][0] + n * (below[n + 1] - below[m + 1]),
                        (*best[m][1], n),
                    )
                    for m in lengths[: max(n - 1, 0)]
                ]
            )
            for n in range(len(counts))
        ]
    edges = np.array(best[-1][1])
    return edges[below[edges + 1] > 0]


def _random_rows(lengths, width, vocabulary_size, random):
    ids = random.integers(
        END_ID + 1, vocabulary_size, (len(lengths), width), dtype=np.int32
    )
    place = np.arange(width)
    ids[place == lengths[:, None] - 1] = END_ID
    ids[place >= lengths[:, None]] = 0
    return ids


def save_batches(path, batches):
    """Writes batches for `load_batches`, to a .npz file."""
    arrays = {
        f"{field.name}_{number}": getattr(batch, field.name)
        for number, batch in enumerate(batches)
        for field in dataclasses.fields(batch)
    }
    np.savez(pathlib.Path(path), **arrays)


def load_batches(path):
    """Returns the list of StepBatch that `save_batches` wrote."""
    fields = [field.name for field in dataclasses.fields(StepBatch)]
    with np.load(pathlib.Path(path), allow_pickle=False) as arrays:
        return [
            StepBatch(*(arrays[f"{name}_{number}"] for name in fields))
            for number in range(len(arrays) // len(fields))
        ]
