"""Batches of a few made-up pairs, filled in one id at a time."""

import numpy as np
from hypothesis import strategies as st

from tests.trainers.helpers import END, token_pairs
from trainers.batches.batch_plan import Batch, BatchShape

BEGIN = 2
SIDES = ("source", "target")
# Source and target lengths of pairs.
LENGTHS = st.lists(
    st.tuples(st.integers(1, 14), st.integers(1, 14)), min_size=1, max_size=80
).map(lambda pairs: np.array(pairs).T)


def some_texts(count, seed):
    """Random pairs of 1 to 8 ids a side, the end id counted."""
    generator = np.random.default_rng(seed)

    def sentence():
        return [*generator.integers(4, 13, generator.integers(0, 8)), END]

    return [(sentence(), sentence()) for _ in range(count)]


def pairs_of(texts):
    return token_pairs(*zip(*texts))


def shapes_of(plan):
    return tuple(bucket.shape for bucket in plan.buckets)


def positions_of(plan):
    """Number of positions in an epoch, with padding."""
    return sum(bucket.num_positions for bucket in plan.buckets)


def padding_share(plan, source_lengths, target_lengths):
    tokens = source_lengths.sum() + target_lengths.sum()
    return 1 - tokens / positions_of(plan)


def batch_of(texts, rows, indices=None, padding=(0, 0, 0)):
    """A Batch of pairs in rows, with additional padding of each axis."""
    indices = range(len(texts)) if indices is None else indices
    widths = [
        max(
            sum(len(texts[n][side]) for n, r in zip(indices, rows) if r == row)
            for row in set(rows)
        )
        for side in (0, 1)
    ]
    sizes = (max(rows) + 1, *widths)
    shape = BatchShape(*(size + more for size, more in zip(sizes, padding)))
    return Batch(np.array(indices), np.array(rows), shape)


def reference_batch(texts, batch, packed):
    """Expected inputs and labels of a Batch, as lists."""
    rows, *lengths = batch.shape
    widths = {
        f"{side}{kind}": length
        for side, length in zip(SIDES, lengths)
        for kind in ("", "_segments", "_positions")
    }
    widths["labels"] = widths["target"]
    matrices = {
        name: [[0] * width for _ in range(rows)]
        for name, width in widths.items()
    }
    ends = [[0, 0] for _ in range(rows)]
    segment = [0] * rows
    for number, row in zip(batch.pair_indices, batch.rows):
        segment[row] += 1
        for side, name in enumerate(SIDES):
            ids = texts[number][side]
            fed = ids if name == "source" else [BEGIN, *ids[:-1]]
            for position, (token, label) in enumerate(zip(fed, ids)):
                column = ends[row][side]
                ends[row][side] += 1
                matrices[name][row][column] = token
                matrices[f"{name}_segments"][row][column] = segment[row]
                matrices[f"{name}_positions"][row][column] = position
                if name == "target":
                    matrices["labels"][row][column] = label
    labels = matrices.pop("labels")
    if not packed:
        matrices = {name: matrices[name] for name in SIDES}
    return matrices, labels


def assert_equal(actual, expected):
    inputs, labels = actual
    assert all(
        np.asarray(array).dtype == np.int32
        for array in (*inputs.values(), labels)
    )
    as_lists = {name: np.asarray(a).tolist() for name, a in inputs.items()}
    assert (as_lists, np.asarray(labels).tolist()) == expected
