"""What every system is told to do: updates on batches of real lengths."""

import csv
import dataclasses
import pathlib

import numpy as np

import keras_transformer as kt
from benchmarks.harness.turns import repeat_for
from export.errors import InputError
from keras_transformer.config import BEGIN_ID, END_ID

DROPOUT = 0.1
SMOOTHING = 0.1
# Tatoeba English-German (169,813 pairs) in 37,000 joint BPE pieces trained on
# it, the end id counted.
DEFAULT_TABLE = pathlib.Path(__file__).with_name("tatoeba_en_de_lengths.csv")
_COLUMNS = ["source", "target", "pairs"]
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


@dataclasses.dataclass(frozen=True)
class StepJob:
    """The model, the work and the machine, the same for every system.

    Attributes:
        config: of the model and of training.
        precision: "float32", or "mixed_bfloat16" for bfloat16 activations
            and products over float32 weights.
        device: "cpu" or "gpu".
        batches: list of StepBatch.
        cores: threads to use on a CPU.
    """

    config: kt.TransformerConfig
    precision: str
    device: str
    batches: list[StepBatch]
    cores: int

    def warm_up(self, peer, shape):
        """Makes an update with a batch; returns its loss."""
        return peer.run(shape)

    def calls(self, peer, shape, at_least):
        """Yields updates with a batch that take at least so many seconds."""
        return repeat_for(lambda: peer.run(shape), at_least)


def make_config(size):
    """Returns the preset of a size with the dropout that all systems use."""
    return kt.TransformerConfig.preset(
        size, dropout=DROPOUT, label_smoothing=SMOOTHING
    )


def read_lengths(path):
    """Returns the two lengths of every pair.

    Args:
        path: CSV file with the columns source, target (lengths in tokens,
            the end id counted) and pairs (how many have these lengths).

    Returns:
        int64 [pairs] of source and int64 [pairs] of target lengths.

    Raises:
        InputError: there is no such file, or it is not such a table.
    """
    try:
        with pathlib.Path(path).open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
            table = np.array(rows, np.int64)
    except (OSError, ValueError) as error:
        raise _not_a_table(path, error) from error
    if header != _COLUMNS or table.ndim != 2 or table.min() < 1:
        raise _not_a_table(path, "other columns, or a number below 1")
    source, target, pairs = table.T
    return np.repeat(source, pairs), np.repeat(target, pairs)


def _not_a_table(path, reason):
    return InputError(
        f"Cannot use {path} as a table of lengths ({reason}); it must be a "
        "CSV file with the header source,target,pairs and whole numbers from "
        "1 on."
    )


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
