import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.batches.batch_loop import (
    LENGTHS,
    padding_share,
    positions_of,
    shapes_of,
)
from trainers.batches import by_length
from trainers.batches.by_length import optimal_segments, plan_by_length

# Number of pairs of each (source length, target length).
CELLS = st.dictionaries(
    st.tuples(st.integers(1, 30), st.integers(1, 30)),
    st.integers(1, 200),
    min_size=1,
    max_size=6,
)


def _lengths(cells):
    return np.repeat(list(cells), list(cells.values()), axis=0).T


def _max_rows(source_length, target_length, tokens):
    rows = max(tokens // max(source_length, target_length), 1)
    return rows if rows < 8 else rows // 8 * 8


@given(LENGTHS, st.integers(14, 400), st.integers(0, 5))
def test_every_pair_is_in_one_batch_within_the_budget(lengths, tokens, shapes):
    source, target = lengths
    plan = plan_by_length(source, target, tokens, shapes, seed=1)
    seen = []
    for batch in plan.epoch(0):
        rows, *longest = batch.shape
        assert batch.rows.tolist() == list(range(len(batch.pair_indices)))
        assert 0 < len(batch.pair_indices) <= rows
        for side, width in zip(lengths, longest):
            assert side[batch.pair_indices].max() <= width
        assert rows % 8 == 0 or rows < 8
        assert rows * max(longest) <= tokens
        seen += batch.pair_indices.tolist()
    assert sorted(seen) == list(range(len(source)))
    assert not shapes or len(shapes_of(plan)) <= shapes
    # No needless padding, and no needless batches.
    for bucket in plan.buckets:
        rows, *longest = bucket.shape
        assert [side[bucket.pair_indices].max() for side in lengths] == longest
        batches = -(-len(bucket.pair_indices) // _max_rows(*longest, tokens))
        assert bucket.num_batches == batches
        assert batches * rows - len(bucket.pair_indices) < 8 * batches


def _segmentations(items, count):
    """Yields all ways to cut a sequence into at most `count` segments."""
    for cuts in range(min(count, len(items))):
        for inner in itertools.combinations(range(1, len(items)), cuts):
            ends = [0, *inner, len(items)]
            yield [items[a:b] for a, b in itertools.pairwise(ends)]


def _cost(groups, tokens):
    """Positions, and a tenth of a full batch for each batch."""
    total = 0
    for group in groups:
        pairs = sum(count for _, count in group)
        source = max(lengths[0] for lengths, _ in group)
        target = max(lengths[1] for lengths, _ in group)
        limit = _max_rows(source, target, tokens)
        batches, unit = -(-pairs // limit), 1 if limit < 8 else 8
        rows = next(
            r for r in itertools.count(unit, unit) if r * batches >= pairs
        )
        total += batches * (rows * (source + target) + 0.1 * 2 * tokens)
    return total


@given(st.permutations(range(6)), CELLS, st.integers(30, 2000))
def test_segments_are_the_best_of_all(order, cells, tokens):
    order = np.array([number for number in order if number < len(cells)])
    items = [list(cells.items())[number] for number in order]
    counted = np.array([(n, *lengths) for lengths, n in cells.items()]).T
    found = list(optimal_segments(counted, order, 4, tokens))
    assert len(found) == min(4, len(cells))
    for count, segment_of in enumerate(found, start=1):
        indices = segment_of[order]
        assert indices[0] == 0 and set(np.diff(indices)) <= {0, 1}
        segments = [
            [item for item, each in zip(items, indices) if each == number]
            for number in range(indices[-1] + 1)
        ]
        assert len(segments) <= count
        assert _cost(segments, tokens) == pytest.approx(
            min(_cost(each, tokens) for each in _segmentations(items, count)),
            rel=1e-12,
        )


def test_buckets_by_hand():
    # Short ones, long ones, and two kinds with one long side.
    cells = {(3, 3): 80, (20, 20): 80, (3, 20): 80, (20, 3): 80}
    lengths = _lengths(cells)
    plan = plan_by_length(*lengths, 160, 4, seed=0)
    assert sorted(shapes_of(plan)) == [
        *((8, 3, 20), (8, 20, 3), (8, 20, 20), (40, 3, 3))
    ]
    assert padding_share(plan, *lengths) == 0
    assert shapes_of(plan_by_length(*lengths, 160, 1, seed=0)) == ((8, 20, 20),)


def test_merging_rare_lengths_costs_little(monkeypatch):
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.2, 0.5, 20_000), 1, 60).astype(int)
    target = np.clip(source + random.integers(-3, 4, len(source)), 1, 60)
    exact = plan_by_length(source, target, 4096, 16, seed=0)
    monkeypatch.setattr(by_length, "_MAX_CELLS", 100)
    merged = plan_by_length(source, target, 4096, 16, seed=0)
    pairs = np.concatenate([bucket.pair_indices for bucket in merged.buckets])
    assert sorted(pairs.tolist()) == list(range(len(source)))
    assert (
        positions_of(exact) < positions_of(merged) < 1.05 * positions_of(exact)
    )
