import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers.batches.batch_loop import (
    pairs_of,
    positions_of,
    some_texts,
)
from tests.trainers.training_options import changed
from trainers.batches import PlannedBatches, plan_batches
from trainers.batches.batch_plan import (
    BatchPlan,
    BatchShape,
    Bucket,
    max_rows,
)
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed


def _plan(contents, seed=0):
    """A plan of buckets, given by the number of pairs of each row."""
    indices = itertools.count()
    buckets = []
    for size, counts in enumerate(contents, start=1):
        rows = [list(itertools.islice(indices, count)) for count in counts]
        starts = np.cumsum([0, *map(len, rows)])
        pairs = np.concatenate(rows)
        shape = BatchShape(8 * (size % 3 + 1), size, size + 1)
        buckets.append(Bucket(pairs, starts, shape))
    return BatchPlan(buckets, seed)


PLANS = st.builds(
    _plan,
    st.lists(
        st.lists(st.integers(1, 3), min_size=1, max_size=60),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**32 - 1),
)


def _listed(batches):
    return [
        (batch.pair_indices.tolist(), batch.rows.tolist(), batch.shape)
        for batch in batches
    ]


@given(PLANS, st.integers(0, 5))
def test_every_row_comes_once_an_epoch_as_it_was_planned(plan, epoch):
    batches = list(plan.epoch(epoch))
    assert len(batches) == plan.batches_per_epoch
    assert positions_of(plan) == sum(
        batch.shape.rows * sum(batch.shape[1:]) for batch in batches
    )
    found, filled = [], {}
    for batch in batches:
        # Rows ascend, and padding is at the end.
        assert batch.rows[0] == 0 and batch.rows[-1] < batch.shape.rows
        assert set(np.diff(batch.rows).tolist()) <= {0, 1}
        filled.setdefault(batch.shape, []).append(batch.rows[-1] + 1)
        ends = np.flatnonzero(np.diff(batch.rows)) + 1
        found += [
            (tuple(row.tolist()), batch.shape)
            for row in np.split(batch.pair_indices, ends)
        ]
    assert sorted(found) == sorted(
        (tuple(bucket.pair_indices[first:last].tolist()), bucket.shape)
        for bucket in plan.buckets
        for first, last in itertools.pairwise(bucket.starts)
    )
    for counts in filled.values():
        assert max(counts) - min(counts) <= 1


@settings(max_examples=40)
@given(PLANS, st.integers(0, 60))
def test_from_step_skips_as_many_batches(plan, step):
    whole = itertools.chain.from_iterable(map(plan.epoch, itertools.count()))
    expected = itertools.islice(whole, step, step + 12)
    actual = itertools.islice(plan.from_step(step), 12)
    assert _listed(actual) == _listed(expected)


def test_epochs_and_seeds_differ_in_batches_and_in_their_order():
    orders = [
        list(_plan([[1] * 300, [2] * 300, [1] * 200], seed).epoch(number))
        for seed, number in itertools.product((1, 2), (0, 1))
    ]
    for one, other in itertools.combinations(orders, 2):
        assert [batch.shape for batch in one] != [b.shape for b in other]
        # Pairs meet others in the next epoch.
        same = {frozenset(batch.pair_indices.tolist()) for batch in one}
        same &= {frozenset(batch.pair_indices.tolist()) for batch in other}
        assert len(same) < len(one) / 10
    shapes = [batch.shape for batch in orders[0]]
    changes = sum(a != b for a, b in itertools.pairwise(shapes))
    assert changes > len(shapes) / 3


def test_a_far_step_is_reached_without_those_before_it(monkeypatch):
    plan = _plan([[1] * 3000, [2] * 3000], seed=1)
    made, make = [], Bucket.batch
    monkeypatch.setattr(
        Bucket,
        "batch",
        lambda *arguments: made.append(arguments) or make(*arguments),
    )
    step = 7 * plan.batches_per_epoch + 3
    list(itertools.islice(plan.from_step(step), 3))
    assert len(made) == 3


def test_rows_by_hand():
    """A multiple of eight if so many fit."""
    for source, target, tokens, rows in (
        (10, 3, 159, 8),
        (3, 10, 160, 16),
        (10, 10, 79, 7),
        (256, 1, 100, 1),
    ):
        assert max_rows(source, target, tokens) == rows
    # 1,600 rows fit; 1,700 make two batches of 850, rounded up to eights.
    bucket = Bucket.balanced(
        np.arange(1700), np.arange(1701), np.array([10, 4]), 16_000
    )
    assert bucket.shape == (856, 10, 4)
    assert {type(size) for size in bucket.shape} == {int}
    assert bucket.num_batches == 2


def test_plans_use_the_options():
    pairs = pairs_of(some_texts(400, seed=5))
    lengths = pairs.source_lengths, pairs.target_lengths
    config = type("Config", (), {"batch_tokens": 512})
    for options, expected in (
        (
            changed(batching="pack", row_tokens=24, seed=8),
            plan_packed(*lengths, 512, 24, 8),
        ),
        (
            changed(batching="length", shapes=5, seed=8),
            plan_by_length(*lengths, 512, 5, 8),
        ),
    ):
        batches = plan_batches(pairs, config, options).epoch(0)
        planned = PlannedBatches(pairs, expected).epoch(0)
        np.testing.assert_equal([*batches], [*planned])
