import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers.batches import tatoeba_lengths
from trainers.batches import by_length
from trainers.batches.batch_plan import padding_share
from trainers.batches.by_length import best_runs, plan_by_length

PAIRS = st.lists(
    st.tuples(st.integers(1, 14), st.integers(1, 14)), min_size=1, max_size=80
).map(lambda pairs: np.array(pairs).T)
# (source length, target length): how many such pairs.
CELLS = st.dictionaries(
    st.tuples(st.integers(1, 30), st.integers(1, 30)),
    st.integers(1, 200),
    min_size=1,
    max_size=6,
)


def _listed(plan, epoch):
    return [
        (batch.pairs.tolist(), batch.rows.tolist(), batch.shape)
        for batch in plan.epoch(epoch)
    ]


def _fill(plan, source, target, tokens):
    """Mean share of the budget that the fuller side of a batch uses."""
    return np.mean(
        [
            max(source[batch.pairs].sum(), target[batch.pairs].sum()) / tokens
            for batch in plan.epoch(0)
        ]
    )


@given(PAIRS, st.integers(14, 400), st.integers(0, 5))
def test_no_pair_is_forgotten_cut_or_over_budget(lengths, tokens, shapes):
    source, target = lengths
    plan = plan_by_length(source, target, tokens, shapes, seed=1)
    seen = []
    for batch in plan.epoch(0):
        rows, source_length, target_length = batch.shape
        longest = max(source_length, target_length)
        assert batch.rows.tolist() == list(range(len(batch.pairs)))
        assert 0 < len(batch.pairs) <= rows
        assert source[batch.pairs].max() <= source_length
        assert target[batch.pairs].max() <= target_length
        assert rows % 8 == 0 or rows < 8
        assert rows * longest <= tokens
        seen += batch.pairs.tolist()
    assert sorted(seen) == list(range(len(source)))
    if shapes:
        assert len(plan.shapes) <= shapes


@given(PAIRS, st.integers(1, 400), st.integers(0, 5))
def test_a_bucket_is_no_longer_and_has_no_more_batches_than_it_must(
    lengths, tokens, shapes
):
    source, target = lengths
    plan = plan_by_length(source, target, tokens, shapes, seed=1)
    for bucket in plan.buckets:
        rows, source_length, target_length = bucket.shape
        assert source[bucket.pairs].max() == source_length
        assert target[bucket.pairs].max() == target_length
        most = _most(source_length, target_length, tokens)
        assert bucket.batches == -(-len(bucket.pairs) // most)
        # Less than one row in eight more than there are pairs, a batch.
        assert bucket.batches * rows - len(bucket.pairs) < 8 * bucket.batches


def _most(source_length, target_length, tokens):
    rows = max(tokens // max(source_length, target_length), 1)
    return rows if rows < 8 else rows // 8 * 8


@given(PAIRS, st.integers(0, 1000), st.integers(0, 5))
def test_the_same_arguments_give_the_same_plan(lengths, seed, shapes):
    one, other = (
        plan_by_length(*some, 80, shapes, seed)
        for some in (lengths, lengths.astype(np.int32))
    )
    assert _listed(one, 2) == _listed(other, 2)


def test_seeds_differ():
    lengths = np.random.default_rng(0).integers(1, 30, (2, 300))
    one, other = (plan_by_length(*lengths, 200, 4, seed) for seed in (1, 2))
    assert _listed(one, 0) != _listed(other, 0)


def _partitions(items):
    """All ways to put items into groups."""
    if not items:
        yield []
        return
    first, *others = items
    for groups in _partitions(others):
        yield [[first], *groups]
        for number, group in enumerate(groups):
            yield [*groups[:number], [first, *group], *groups[number + 1 :]]


def _cost(groups, tokens):
    """Positions, and a tenth of a full batch for each batch."""
    total = 0
    for group in groups:
        pairs = sum(count for _, count in group)
        source = max(lengths[0] for lengths, _ in group)
        target = max(lengths[1] for lengths, _ in group)
        most = _most(source, target, tokens)
        batches = -(-pairs // most)
        unit = 1 if most < 8 else 8
        rows = next(
            r for r in itertools.count(unit, unit) if r * batches >= pairs
        )
        total += batches * (rows * (source + target) + 0.1 * 2 * tokens)
    return total


def _over_the_best(cells, tokens, shapes):
    """How many times what the best buckets cost those of the plan do."""
    lengths = np.repeat(list(cells), list(cells.values()), axis=0).T
    plan = plan_by_length(*lengths, tokens, shapes, seed=0)
    cost = plan.positions + 0.1 * 2 * tokens * plan.batches_per_epoch
    return cost / min(
        _cost(groups, tokens)
        for groups in _partitions(list(cells.items()))
        if len(groups) <= shapes
    )


@settings(max_examples=200)
@given(CELLS, st.integers(30, 2000), st.integers(1, 4))
def test_buckets_never_cost_half_as_much_again_as_the_best_there_are(
    cells, tokens, shapes
):
    assert _over_the_best(cells, tokens, shapes) <= 1.5


def test_buckets_cost_little_more_than_the_best_there_are():
    random = np.random.default_rng(0)
    ratios = []
    for _ in range(500):
        lengths = random.integers(1, random.choice([4, 8, 30]), (6, 2)) + 1
        counts = random.integers(1, random.choice([3, 20, 200]), 6)
        cells = dict(zip(map(tuple, lengths.tolist()), counts.tolist()))
        tokens = random.integers(30, random.choice([100, 400, 2000]))
        ratios.append(_over_the_best(cells, tokens, random.integers(1, 5)))
    assert np.mean(ratios) <= 1
    assert np.quantile(ratios, 0.99) <= 1.06


def _by_longer(item):
    """The order of cells in which the plan first seeks buckets."""
    (source, target), _ = item
    return max(source, target), source + target, source


def _strips(items, count):
    """All ways to put items that follow one another into groups."""
    for cuts in range(min(count, len(items))):
        for inner in itertools.combinations(range(1, len(items)), cuts):
            ends = [0, *inner, len(items)]
            yield [items[a:b] for a, b in itertools.pairwise(ends)]


@given(st.permutations(range(6)), CELLS, st.integers(30, 2000))
def test_no_other_runs_of_an_order_cost_less(order, cells, tokens):
    order = np.array([number for number in order if number < len(cells)])
    items = [list(cells.items())[number] for number in order]
    counted = np.array([(n, *lengths) for lengths, n in cells.items()]).T
    found = list(best_runs(counted, order, 4, tokens))
    assert len(found) == min(4, len(cells))
    for count, run_of in enumerate(found, start=1):
        numbers = run_of[order]
        assert numbers[0] == 0 and set(np.diff(numbers)) <= {0, 1}
        assert numbers[-1] < count
        runs = [
            [item for item, run in zip(items, numbers) if run == number]
            for number in range(numbers[-1] + 1)
        ]
        least = min(_cost(groups, tokens) for groups in _strips(items, count))
        assert _cost(runs, tokens) == pytest.approx(least, rel=1e-12)


@given(CELLS, st.integers(30, 2000), st.integers(1, 4))
def test_buckets_cost_no_more_than_the_best_in_the_order_of_length(
    cells, tokens, shapes
):
    lengths = np.repeat(list(cells), list(cells.values()), axis=0).T
    plan = plan_by_length(*lengths, tokens, shapes, seed=0)
    cost = plan.positions + 0.1 * 2 * tokens * plan.batches_per_epoch
    items = sorted(cells.items(), key=_by_longer)
    least = min(_cost(groups, tokens) for groups in _strips(items, shapes))
    assert cost <= least * (1 + 1e-12)


@given(
    st.dictionaries(
        st.tuples(st.integers(1, 20), st.integers(1, 20)),
        st.integers(1, 3),
        min_size=1,
        max_size=12,
    )
)
def test_whole_batches_of_one_length_have_no_padding(batches):
    tokens = 320
    counts = [
        count * _most(*lengths, tokens) for lengths, count in batches.items()
    ]
    lengths = np.repeat(list(batches), counts, axis=0).T
    plan = plan_by_length(*lengths, tokens, 12, seed=0)
    assert padding_share(plan, *lengths) == 0
    assert plan.batches_per_epoch == sum(batches.values())


def test_buckets_by_hand():
    # Short ones, long ones, and two kinds with one long side.
    cells = {(3, 3): 80, (20, 20): 80, (3, 20): 80, (20, 3): 80}
    lengths = np.repeat(list(cells), list(cells.values()), axis=0).T
    plan = plan_by_length(*lengths, 160, 4, seed=0)
    assert sorted(plan.shapes) == [
        (8, 3, 20),
        (8, 20, 3),
        (8, 20, 20),
        (40, 3, 3),
    ]
    assert padding_share(plan, *lengths) == 0
    assert plan_by_length(*lengths, 160, 1, seed=0).shapes == ((8, 20, 20),)


def test_a_few_more_pairs_than_a_batch_holds_do_not_make_one_nearly_empty():
    lengths = np.full((2, 1700), 10)
    plan = plan_by_length(*lengths, 16_000, 1, seed=0)
    assert plan.shapes == ((856, 10, 10),)
    assert [len(batch.pairs) for batch in plan.epoch(0)] == [850, 850]


def test_lengths_that_differ_cost_no_padding_on_the_shorter_side():
    source = np.repeat([5, 10, 20, 40], 1000)
    plan = plan_by_length(source, 3 * source, 4800, 4, seed=0)
    assert {shape[1:] for shape in plan.shapes} == {
        (5, 15),
        (10, 30),
        (20, 60),
        (40, 120),
    }
    assert padding_share(plan, source, 3 * source) < 0.02


@pytest.mark.parametrize(
    ("tokens", "shapes", "padding", "fill"),
    [
        (25_000, 0, 0.03, 0.83),
        (25_000, 16, 0.10, 0.83),
        (25_000, 64, 0.03, 0.83),
        (4_096, 0, 0.03, 0.93),
        (4_096, 16, 0.10, 0.88),
        (4_096, 4, 0.29, 0.68),
    ],
)
def test_real_sentences_have_little_padding(tokens, shapes, padding, fill):
    lengths = tatoeba_lengths.lengths()
    plan = plan_by_length(*lengths, tokens, shapes, seed=1)
    assert padding_share(plan, *lengths) <= padding
    assert _fill(plan, *lengths, tokens) >= fill
    assert len(plan.shapes) <= (shapes or 75)


def test_many_lengths_cost_little_more_when_rare_ones_are_joined(monkeypatch):
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.2, 0.5, 20_000), 1, 60).astype(int)
    target = np.clip(source + random.integers(-3, 4, len(source)), 1, 60)
    alone = plan_by_length(source, target, 4096, 16, seed=0)
    monkeypatch.setattr(by_length, "_MOST_CELLS", 100)
    joined = plan_by_length(source, target, 4096, 16, seed=0)
    pairs = np.concatenate([bucket.pairs for bucket in joined.buckets])
    assert sorted(pairs.tolist()) == list(range(len(source)))
    assert len(joined.shapes) <= 16
    assert alone.positions < joined.positions < 1.05 * alone.positions


@pytest.mark.slow
def test_millions_of_pairs_need_little_memory():
    random = np.random.default_rng(0)
    source = random.integers(2, 257, 1_500_000).astype(np.int32)
    target = np.clip(source + random.integers(-20, 21, len(source)), 1, 256)
    tracemalloc.start()
    plan = plan_by_length(source, target, 25_000, 16, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 * len(source)
    assert sum(len(bucket.pairs) for bucket in plan.buckets) == len(source)
    assert padding_share(plan, source, target) < 0.15
