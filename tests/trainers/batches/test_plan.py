import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.batches import batch_plan
from trainers.batches.batch_plan import (
    BatchPlan,
    BatchShape,
    Bucket,
    balanced_rows,
    batching_cost,
    max_rows,
    padding_share,
)


def _bucket(rows, shape):
    """A bucket of lists of pairs."""
    starts = np.cumsum([0, *map(len, rows)])
    pairs = np.array([pair for row in rows for pair in row], np.int64)
    return Bucket(pairs, starts, BatchShape(*shape))


def _plan(contents, seed=0):
    """A plan of buckets of rows that hold so many pairs each."""
    numbers = itertools.count()
    buckets = []
    for size, counts in enumerate(contents, start=1):
        rows = [list(itertools.islice(numbers, count)) for count in counts]
        buckets.append(_bucket(rows, (8 * (size % 3 + 1), size, size + 1)))
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


def _rows(batch):
    """The pairs of each row that has some."""
    numbers = range(batch.shape.rows)
    rows = [tuple(batch.pairs[batch.rows == row].tolist()) for row in numbers]
    return [row for row in rows if row]


def _listed(batches):
    return [
        (batch.pairs.tolist(), batch.rows.tolist(), batch.shape)
        for batch in batches
    ]


def _planned_rows(plan):
    return sorted(
        (tuple(bucket.pairs[first:last].tolist()), bucket.shape)
        for bucket in plan.buckets
        for first, last in itertools.pairwise(bucket.starts)
    )


@given(PLANS, st.integers(0, 5))
def test_every_row_comes_exactly_once_an_epoch_as_it_was_planned(plan, epoch):
    batches = list(plan.epoch(epoch))
    rows = [(row, batch.shape) for batch in batches for row in _rows(batch)]
    assert sorted(rows) == _planned_rows(plan)
    pairs = np.sort(np.concatenate([batch.pairs for batch in batches]))
    assert pairs.tolist() == list(range(len(pairs)))
    assert len(batches) == len(plan.epoch(epoch)) == plan.batches_per_epoch


@given(PLANS, st.integers(0, 5))
def test_rows_ascend_and_padding_stands_at_the_end(plan, epoch):
    for batch in plan.epoch(epoch):
        assert len(batch.rows) == len(batch.pairs)
        assert batch.rows[0] == 0
        assert set(np.diff(batch.rows).tolist()) <= {0, 1}
        assert batch.rows[-1] < batch.shape.rows


@given(PLANS, st.integers(0, 5))
def test_missing_rows_are_spread(plan, epoch):
    filled = {}
    for batch in plan.epoch(epoch):
        filled.setdefault(batch.shape, []).append(batch.rows[-1] + 1)
    for counts in filled.values():
        assert max(counts) - min(counts) <= 1


def test_a_bucket_by_hand():
    bucket = _bucket([[4, 5], [9], [7, 2, 3]], (8, 10, 11))
    batch = bucket.batch(np.array([2, 0, 1]), 0)
    assert batch.pairs.tolist() == [7, 2, 3, 4, 5, 9]
    assert batch.rows.tolist() == [0, 0, 0, 1, 1, 2]
    assert batch.shape == (8, 10, 11)
    assert batch.shape.positions == 8 * 21


def test_batches_of_a_bucket_by_hand():
    bucket = _bucket([[number] for number in range(19)], (8, 3, 3))
    order = np.arange(19)[::-1]
    batches = [bucket.batch(order, number) for number in range(3)]
    assert bucket.batches == 3
    assert [batch.pairs.tolist() for batch in batches] == [
        [18, 17, 16, 15, 14, 13],
        [12, 11, 10, 9, 8, 7],
        [6, 5, 4, 3, 2, 1, 0],
    ]


@given(PLANS, st.integers(0, 3), st.data())
def test_any_batch_can_be_asked_for_alone(plan, number, data):
    epoch = plan.epoch(number)
    index = data.draw(st.integers(0, len(epoch) - 1))
    assert (
        _listed([epoch[index]])
        == _listed(list(plan.epoch(number)))[index : index + 1]
    )


@given(PLANS, st.integers(0, 9))
def test_an_epoch_depends_on_seed_and_number_alone(plan, epoch):
    first = _listed(plan.epoch(epoch))
    np.random.seed(epoch)
    before = np.random.get_state()[1].tolist()
    list(plan.epoch(epoch + 1))
    assert _listed(plan.epoch(epoch)) == first
    assert _listed(BatchPlan(plan.buckets, plan.seed).epoch(epoch)) == first
    assert np.random.get_state()[1].tolist() == before


@given(PLANS, st.integers(0, 60))
def test_from_step_is_where_iterating_gets_to(plan, step):
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
        assert [batch.shape for batch in one] != [
            batch.shape for batch in other
        ]
    members = [
        {frozenset(batch.pairs.tolist()) for batch in order} for order in orders
    ]
    for one, other in itertools.combinations(members, 2):
        # Pairs meet others in the next epoch, not the same batch reordered.
        assert len(one & other) < len(one) / 10


def test_shapes_are_mixed_over_the_epoch():
    plan = _plan([[1] * 300] * 4)
    shapes = [batch.shape for batch in plan.epoch(0)]
    changes = sum(a != b for a, b in itertools.pairwise(shapes))
    assert changes > len(shapes) / 2


def test_a_far_step_is_reached_without_those_before_it(monkeypatch):
    """Of 4.5 million pairs, and one epoch is shuffled once."""
    count = 4_500_000
    shapes = [(80, 30, 33), (40, 60, 66)]
    halves = np.split(np.random.default_rng(0).permutation(count), 2)
    plan = BatchPlan(
        [
            Bucket(pairs, np.arange(len(pairs) + 1), BatchShape(*shape))
            for pairs, shape in zip(halves, shapes)
        ],
        seed=1,
    )
    generators, made = [], []
    new_generator, make = np.random.default_rng, Bucket.batch
    monkeypatch.setattr(
        batch_plan.np.random,
        "default_rng",
        lambda seed: generators.append(seed) or new_generator(seed),
    )
    monkeypatch.setattr(
        Bucket,
        "batch",
        lambda *arguments: made.append(arguments) or make(*arguments),
    )
    step = 100_000
    batches = list(itertools.islice(plan.from_step(step), 3))
    epoch = step // plan.batches_per_epoch
    assert epoch == 1
    assert generators == [[1, epoch, number] for number in range(3)]
    assert len(made) == 3
    assert {len(batch.pairs) for batch in batches} <= {79, 80, 39, 40}


@given(
    st.integers(1, 3000),
    st.integers(1, 7) | st.integers(1, 40).map(lambda eighth: 8 * eighth),
)
def test_rows_are_balanced(rows, most):
    batches, unit = -(-rows // most), 1 if most < 8 else 8
    least = min(
        candidate
        for candidate in range(unit, most + 1, unit)
        if -(-rows // candidate) == batches
    )
    assert balanced_rows(rows, most) == least
    # Spread evenly, the rows that are missing are few.
    assert batches * least - rows < unit * batches


@pytest.mark.parametrize(
    ("source", "target", "tokens", "rows"),
    [
        (10, 10, 80, 8),
        (10, 3, 159, 8),
        (3, 10, 160, 16),
        (10, 10, 79, 7),
        (30, 1, 100, 3),
        (256, 1, 100, 1),
        (1, 1, 25, 24),
    ],
)
def test_rows_come_in_eights_where_so_many_may_be(source, target, tokens, rows):
    assert max_rows(source, target, tokens) == rows


def test_a_balanced_bucket_by_hand():
    # 1,600 rows fit; 1,700 make two batches of 850, rounded up to eights.
    bucket = Bucket.balanced(
        np.arange(1700), np.arange(1701), np.int64(10), np.int64(4), 16_000
    )
    assert bucket.shape == (856, 10, 4)
    assert {type(size) for size in bucket.shape} == {int}
    assert bucket.batches == 2


def test_a_batch_costs_its_positions_and_a_tenth_of_a_full_one():
    rows = np.array([1, 8, 9, 1700])
    costs = batching_cost(rows, np.array([3, 20, 20, 10]), 10, 160)
    # 16, 8, 8 and 16 rows fit.
    batches, held = [1, 1, 2, 107], [8, 8, 8, 16]
    sides = [13, 30, 30, 20]
    assert costs.tolist() == [
        count * (size * side + 32)
        for count, size, side in zip(batches, held, sides)
    ]


@given(PLANS)
def test_padding_is_what_the_matrices_hold_beside_the_pairs(plan):
    pairs = sum(len(bucket.pairs) for bucket in plan.buckets)
    source = np.random.default_rng(0).integers(1, 3, pairs)
    target = np.random.default_rng(1).integers(1, 3, pairs)
    positions = real = 0
    for batch in plan.epoch(0):
        positions += np.zeros([batch.shape.rows, sum(batch.shape[1:])]).size
        real += (source + target)[batch.pairs].sum()
    assert plan.positions == positions
    share = padding_share(plan, source, target)
    assert share == pytest.approx(1 - real / positions)
