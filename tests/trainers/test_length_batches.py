import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.length_batches import bucket_edges, plan_batches, rows_for

LENGTHS = st.lists(st.integers(1, 14), min_size=1, max_size=80).map(np.array)
PLANS = st.builds(
    plan_batches,
    LENGTHS,
    batch_tokens=st.integers(1, 400),
    shapes=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)


def _listed(batches):
    return [(rows.tolist(), length) for rows, length in batches]


def _padding(lengths, edges):
    """Positions of padding when each length goes up to the next edge."""
    return sum(
        min(edge for edge in edges if edge >= length) - length
        for length in lengths
    )


@given(PLANS, st.integers(0, 5))
def test_every_pair_comes_exactly_once_an_epoch(plan, epoch):
    batches = list(plan.epoch(epoch))
    rows = np.concatenate([rows for rows, _ in batches])
    pairs = np.sort(np.concatenate(plan.buckets))
    assert np.sort(rows[rows >= 0]).tolist() == pairs.tolist()
    assert set(rows[rows < 0].tolist()) <= {-1}
    assert len(batches) == plan.batches_per_epoch


@given(LENGTHS, st.integers(1, 400), st.integers(1, 5))
def test_no_pair_is_forgotten_cut_or_over_budget(lengths, tokens, shapes):
    plan = plan_batches(lengths, tokens, shapes, seed=1)
    seen = []
    made = set()
    for rows, padded_length in plan.epoch(0):
        real = rows[rows >= 0]
        assert len(real) > 0, "a batch of nothing but padding"
        # Padding stands at the end and nowhere between.
        assert (rows[: len(real)] >= 0).all()
        assert lengths[real].max() <= padded_length
        assert len(rows) % 8 == 0
        assert len(rows) == 8 or len(rows) * padded_length <= tokens
        # Nor is the budget wasted.
        assert (len(rows) + 8) * padded_length > tokens
        seen += real.tolist()
        made.add((len(rows), padded_length))
    assert sorted(seen) == list(range(len(lengths)))
    assert len(made) <= shapes


@given(PLANS, st.integers(0, 4))
def test_a_bucket_has_at_most_one_batch_with_padding_rows(plan, epoch):
    short = [length for rows, length in plan.epoch(epoch) if (rows < 0).any()]
    assert len(short) == len(set(short))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=40).map(np.array),
    st.integers(1, 5),
)
def test_edges_make_the_least_padding_there_is(lengths, shapes):
    edges = bucket_edges(lengths, shapes)
    assert len(edges) <= shapes
    assert edges == sorted(set(edges))
    assert edges[-1] == lengths.max()
    longest = int(lengths.max())
    least = min(
        _padding(lengths, (*others, longest))
        for count in range(shapes)
        for others in itertools.combinations(range(1, longest), count)
    )
    assert _padding(lengths, edges) == least


def test_edges_by_hand():
    lengths = np.array([2, 2, 2, 3, 9, 10])
    assert bucket_edges(lengths, 1) == [10]
    assert bucket_edges(lengths, 2) == [3, 10]
    assert bucket_edges(lengths, 3) in ([2, 3, 10], [3, 9, 10])
    assert bucket_edges(lengths, 4) == [2, 3, 9, 10]
    assert bucket_edges(lengths, 99) == [2, 3, 9, 10]


def test_many_pairs_do_not_overflow():
    lengths = np.repeat([256, 255, 1], 1_000_000)
    assert bucket_edges(lengths, 2) == [1, 256]


@given(PLANS, st.integers(0, 9))
def test_an_epoch_depends_on_seed_and_number_alone(plan, epoch):
    first = _listed(plan.epoch(epoch))
    np.random.seed(epoch)
    before = np.random.get_state()[1].tolist()
    list(plan.epoch(epoch + 1))
    assert _listed(plan.epoch(epoch)) == first
    assert np.random.get_state()[1].tolist() == before


@given(LENGTHS, st.integers(0, 1000))
def test_the_same_arguments_give_the_same_plan(lengths, seed):
    one, other = (plan_batches(lengths, 80, 3, seed) for _ in range(2))
    assert _listed(one.epoch(2)) == _listed(other.epoch(2))


@given(PLANS, st.integers(0, 60))
def test_from_step_is_where_iterating_gets_to(plan, step):
    whole = itertools.chain.from_iterable(map(plan.epoch, itertools.count()))
    expected = itertools.islice(whole, step, step + 12)
    actual = itertools.islice(plan.from_step(step), 12)
    assert _listed(actual) == _listed(expected)


def test_epochs_and_seeds_differ_in_batches_and_in_their_order():
    lengths = np.random.default_rng(0).integers(1, 30, 300)

    def epoch(seed, number):
        plan = plan_batches(lengths, 200, 4, seed)
        return _listed(plan.epoch(number))

    orders = [epoch(1, 0), epoch(1, 1), epoch(2, 0), epoch(2, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert [length for _, length in one] != [length for _, length in other]
    members = [{frozenset(rows) for rows, _ in each} for each in orders]
    for one, other in itertools.combinations(members, 2):
        # Pairs meet others in the next epoch, not the same batch reordered.
        assert len(one & other) < len(one) / 10


def test_lengths_are_mixed_over_the_epoch():
    lengths = np.random.default_rng(0).integers(1, 30, 2000)
    order = [length for _, length in plan_batches(lengths, 200, 4, 1).epoch(0)]
    changes = sum(a != b for a, b in itertools.pairwise(order))
    assert changes > len(order) / 2


@pytest.mark.parametrize(
    ("length", "tokens", "rows"),
    [(10, 80, 8), (10, 159, 8), (10, 160, 16), (256, 100, 8), (1, 25, 24)],
)
def test_rows_come_in_eights(length, tokens, rows):
    assert rows_for(length, tokens) == rows
