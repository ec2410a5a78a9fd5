import itertools
import tracemalloc

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
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed, row_shapes


def _tatoeba_like(count, seed=0):
    """Lengths that are about the same on both sides."""
    random = np.random.default_rng(seed)
    source = random.lognormal(2.2, 0.5, count)
    target = source * random.lognormal(0.05, 0.2, count)
    return np.clip([source, target], 1, 60).astype(np.int64) + 1


def _rows(plan):
    return [
        bucket.pair_indices[first:last]
        for bucket in plan.buckets
        for first, last in itertools.pairwise(bucket.starts)
    ]


@given(LENGTHS, st.integers(14, 400), st.integers(1, 60), st.integers(0, 9))
def test_every_pair_is_in_one_row_that_it_fits(
    lengths, tokens, row_tokens, seed
):
    source, target = lengths
    plan = plan_packed(source, target, tokens, row_tokens, seed)
    seen = []
    for batch in plan.epoch(seed):
        rows, *widths = batch.shape
        assert rows % 8 == 0 or rows < 8
        assert rows * max(widths) <= tokens
        for side, width in zip(lengths, widths):
            used = np.bincount(batch.rows, side[batch.pair_indices])
            assert used.min() > 0 and used.max() <= width
            assert len(used) <= rows
        seen += batch.pair_indices.tolist()
    assert sorted(seen) == list(range(len(source)))


@given(LENGTHS, st.integers(14, 400), st.integers(0, 60))
def test_the_sides_of_a_row_have_the_ratio_of_the_data(
    lengths, tokens, row_tokens
):
    totals, longest = lengths.sum(axis=1), lengths.max(axis=1)
    share = totals / totals.max()
    needed = min(np.ceil((longest / share).max()), tokens)
    rows = row_shapes(lengths, tokens, row_tokens)
    assert len(set(rows)) == len(rows) > 0
    for sides in rows:
        assert (sides >= longest).all()
        longer = max(sides)
        assert longer <= max(min(row_tokens, tokens), needed)
        assert longer >= min(row_tokens, tokens) * 7 // 8
        for side, part, least in zip(sides, share, longest):
            # Rounded, or as long as the longest sentence.
            assert abs(side - longer * part) <= 0.5 or side == least


@pytest.mark.parametrize("plan", [plan_packed, plan_by_length])
def test_a_plan_depends_on_lengths_and_seed_only(plan):
    lengths = _tatoeba_like(300)
    one, again, other = (
        [
            (batch.pair_indices.tolist(), batch.rows.tolist())
            for batch in plan(*lengths.astype(dtype), 80, 20, seed).epoch(2)
        ]
        for dtype, seed in (("int64", 1), ("int32", 1), ("int64", 2))
    )
    assert one == again != other


@pytest.mark.parametrize("plan", [plan_packed, plan_by_length])
@pytest.mark.parametrize("tokens", [600, 25_000])
def test_outliers_do_not_decide_a_plan(plan, tokens):
    """They add at most 15 %, and an update for each of them."""
    usual = _tatoeba_like(4000)
    outliers = np.array([[500, 3, 400], [2, 500, 400]])
    option = 128 if plan is plan_packed else 16
    one, other = (
        plan(*lengths, tokens, option, 1)
        for lengths in (usual, np.hstack([usual, outliers]))
    )
    assert all(rows * max(sides) <= tokens for rows, *sides in shapes_of(other))
    updates = 1.15 * one.batches_per_epoch + 3
    assert other.batches_per_epoch <= updates
    positions = 1.15 * positions_of(one) + 2 * tokens * 3
    assert positions_of(other) <= positions


def test_seeds_pack_differently_and_neighbors_are_parted():
    lengths = _tatoeba_like(2000)
    one, other = (
        _rows(plan_packed(*lengths, 4096, 128, seed)) for seed in (1, 2)
    )
    shared = {frozenset(row.tolist()) for row in one}
    shared &= {frozenset(row.tolist()) for row in other}
    assert len(shared) < len(one) / 10
    rows = _rows(plan_packed(*np.full((2, 5000), 8), 4096, 128, seed=0))
    neighbors = sum((np.diff(np.sort(row)) == 1).sum() for row in rows)
    assert neighbors < 5000 / 50


def test_long_sentences_are_packed_in_blocks_of_positions():
    lengths = np.random.default_rng(0).integers(1, 1025, (2, 8_000))
    plan = plan_packed(*lengths, 25_000, 2048, seed=0)
    assert padding_share(plan, *lengths) < 0.02
    for row in _rows(plan):
        for side, width in zip(lengths, shapes_of(plan)[0][1:]):
            assert side[row].sum() <= width


@pytest.mark.parametrize(
    ("plan", "tokens", "option", "padding"),
    [
        (plan_packed, 4_096, 80, 0.01),
        (plan_by_length, 4_096, 0, 0.035),
        (plan_by_length, 4_096, 16, 0.12),
    ],
)
def test_many_pairs_have_little_padding(
    monkeypatch, plan, tokens, option, padding
):
    # Several times faster, with a little more padding.
    monkeypatch.setattr(by_length, "_MAX_CELLS", 400)
    lengths = _tatoeba_like(80_000)
    batches = plan(*lengths, tokens, option, seed=1)
    assert padding_share(batches, *lengths) <= padding
    assert len(shapes_of(batches)) <= (option or 128)


def test_many_pairs_need_little_memory():
    lengths = _tatoeba_like(500_000)
    tracemalloc.start()
    plan_packed(*lengths, 25_000, 128, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120 * lengths.shape[1]
