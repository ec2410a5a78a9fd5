import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainers.batches import tatoeba_lengths
from trainers.batches.batch_plan import padding_share
from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed, row_lengths

PAIRS = st.lists(
    st.tuples(st.integers(1, 14), st.integers(1, 14)), min_size=1, max_size=80
).map(lambda pairs: np.array(pairs).T)


def _tatoeba_like(count, seed=0):
    """Lengths that are about the same on both sides."""
    random = np.random.default_rng(seed)
    source = random.lognormal(2.2, 0.5, count)
    target = source * random.lognormal(0.05, 0.2, count)
    return np.clip([source, target], 1, 60).astype(np.int64) + 1


def _rows(plan):
    return [
        bucket.pairs[first:last]
        for bucket in plan.buckets
        for first, last in itertools.pairwise(bucket.starts)
    ]


def _listed(plan, epoch):
    return [
        (batch.pairs.tolist(), batch.rows.tolist())
        for batch in plan.epoch(epoch)
    ]


def _inside(plan, source, target):
    """Share of padding in the rows, those without a pair left out."""
    _, *lengths = plan.shapes[0]
    positions = len(_rows(plan)) * sum(lengths)
    return 1 - (source.sum() + target.sum()) / positions


@given(PAIRS, st.integers(14, 400), st.integers(1, 60), st.integers(0, 9))
def test_no_pair_is_forgotten_or_cut_and_no_row_overfull(
    lengths, tokens, row_tokens, seed
):
    source, target = lengths
    plan = plan_packed(source, target, tokens, row_tokens, seed)
    seen = []
    for batch in plan.epoch(seed):
        rows, source_length, target_length = batch.shape
        assert rows % 8 == 0 or rows < 8
        assert rows * max(source_length, target_length) <= tokens
        held = np.bincount(batch.rows, source[batch.pairs])
        assert held.min() > 0 and held.max() <= source_length
        held = np.bincount(batch.rows, target[batch.pairs])
        assert held.min() > 0 and held.max() <= target_length
        assert len(held) <= rows
        seen += batch.pairs.tolist()
    assert sorted(seen) == list(range(len(source)))


@given(PAIRS, st.integers(14, 400), st.integers(0, 60))
def test_the_sides_of_a_row_are_as_the_sides_of_the_data(
    lengths, tokens, row_tokens
):
    totals, longest = lengths.sum(axis=1), lengths.max(axis=1)
    share = totals / totals.max()
    # The longer side that the longest sentences need.
    needed = min(np.ceil((longest / share).max()), tokens)
    rows = row_lengths(*lengths, tokens, row_tokens)
    assert len(set(rows)) == len(rows) > 0
    for sides in rows:
        assert (sides >= longest).all()
        longer = max(sides)
        assert longer <= max(min(row_tokens, tokens), needed)
        assert longer >= min(row_tokens, tokens) * 7 // 8
        for side, part, least in zip(sides, share, longest):
            # Rounded; or as long as the longest sentence.
            assert abs(side - longer * part) <= 0.5 or side == least


@pytest.mark.parametrize(
    ("source", "target", "tokens", "row_tokens", "sides"),
    [
        # 4096 = 32 x 128: nothing to gain.
        ([10] * 400_000, [10] * 400_000, 4096, 128, (128, 128)),
        # Of rows of 192, a batch may have 16; of rows of 170 it has 24.
        ([10] * 400_000, [10] * 400_000, 4096, 192, (170, 170)),
        ([10] * 400_000, [5] * 400_000, 4096, 128, (128, 64)),
        ([5] * 400_000, [10] * 400_000, 4096, 128, (64, 128)),
        ([60, 1], [60, 1], 480, 30, (60, 60)),
        # The longest source needs 40, so the target side grows as well.
        ([40, 10, 10], [60, 30, 30], 480, 30, (40, 80)),
    ],
)
def test_row_lengths_by_hand(source, target, tokens, row_tokens, sides):
    lengths = np.array(source), np.array(target)
    assert row_lengths(*lengths, tokens, row_tokens)[0] == sides


@given(PAIRS, st.integers(0, 1000))
def test_the_same_arguments_give_the_same_plan(lengths, seed):
    np.random.seed(seed % 7)
    one, other = (
        plan_packed(*some, 80, 20, seed)
        for some in (lengths, lengths.astype(np.int32))
    )
    assert _listed(one, 2) == _listed(other, 2)


OUTLIERS = st.lists(
    st.tuples(st.integers(1, 500), st.integers(1, 500)), min_size=1, max_size=6
)


@settings(max_examples=60)
@given(
    st.floats(0.5, 3.5),
    st.floats(-2.0, 2.0),
    st.floats(0.0, 0.8),
    OUTLIERS,
    st.sampled_from([600, 2048, 25_000]),
    st.sampled_from([64, 128, 256]),
    st.sampled_from(["pack", "length"]),
)
def test_a_few_odd_pairs_neither_break_the_bound_nor_decide_a_plan(
    size, ratio, spread, odd, tokens, row_tokens, batching
):
    """What they add is at most 15 %, and an update for each of them."""
    random = np.random.default_rng(0)
    source = random.lognormal(size, spread, 4000)
    usual = np.stack([source, source * np.exp(ratio)])
    usual = np.clip(usual, 1, row_tokens // 2).astype(int)
    plans = []
    for lengths in (usual, np.hstack([usual, np.array(odd).T])):
        if batching == "pack":
            plan = plan_packed(*lengths, tokens, row_tokens, seed=1)
        else:
            plan = plan_by_length(*lengths, tokens, 16, seed=1)
        held = np.sort(np.concatenate([each.pairs for each in plan.epoch(0)]))
        assert held.tolist() == list(range(lengths.shape[1]))
        for rows, *sides in plan.shapes:
            assert rows * max(sides) <= tokens
        plans.append(plan)
    without, with_odd = plans
    assert with_odd.batches_per_epoch <= 1.15 * without.batches_per_epoch + len(
        odd
    )
    assert with_odd.positions <= 1.15 * without.positions + 2 * tokens * len(
        odd
    )


def test_one_noisy_pair_costs_one_update():
    random = np.random.default_rng(0)
    usual = np.stack(
        [random.integers(*ends, 6000) for ends in ((8, 25), (3, 5))]
    )
    noisy = np.hstack([usual, [[4], [217]]])
    one, other = (plan_packed(*each, 2048, 128, 1) for each in (usual, noisy))
    assert other.batches_per_epoch == one.batches_per_epoch + 1 == 52
    assert {shape[1:] for shape in other.shapes} == {(123, 27), (4, 217)}


def test_seeds_pack_differently():
    lengths = _tatoeba_like(2000)
    one, other = (
        {
            frozenset(row.tolist())
            for row in _rows(plan_packed(*lengths, 4096, 128, seed))
        }
        for seed in (1, 2)
    )
    assert len(one & other) < len(one) / 10


def test_neighbours_in_the_corpus_do_not_share_rows():
    lengths = np.full((2, 5000), 8)
    rows = _rows(plan_packed(*lengths, 4096, 128, seed=0))
    neighbours = sum((np.diff(np.sort(row)) == 1).sum() for row in rows)
    assert neighbours < 5000 / 50


def test_epochs_share_rows_and_not_batches():
    lengths = _tatoeba_like(20_000)
    plan = plan_packed(*lengths, 4096, 128, seed=1)
    first, second = (
        {frozenset(batch.pairs.tolist()) for batch in plan.epoch(number)}
        for number in (0, 1)
    )
    assert not first & second


def _fewest_rows(pairs, source, target):
    """By trying all ways; for a handful of pairs."""
    fewest = len(pairs)

    def place(rest, rows):
        nonlocal fewest
        if len(rows) >= fewest:
            return
        if not rest:
            fewest = len(rows)
            return
        (a, b), *others = rest
        for number, (x, y) in enumerate(rows):
            if x + a <= source and y + b <= target:
                grown = [*rows[:number], (x + a, y + b), *rows[number + 1 :]]
                place(others, grown)
        place(others, [*rows, (a, b)])

    place(sorted(pairs, reverse=True), [])
    return fewest


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 9)),
        min_size=1,
        max_size=9,
    ),
    st.integers(9, 20),
)
def test_a_few_pairs_take_at_most_a_row_more_than_they_must(pairs, row_tokens):
    lengths = np.array(pairs).T
    plan = plan_packed(*lengths, 10_000, row_tokens, seed=0)
    _, source, target = plan.shapes[0]
    fewest = _fewest_rows(pairs, source, target)
    assert fewest <= len(_rows(plan)) <= fewest + 1


@pytest.mark.parametrize("row_tokens", [64, 128, 256])
@pytest.mark.parametrize("seed", [0, 1])
def test_rows_are_nearly_full(row_tokens, seed):
    lengths = _tatoeba_like(100_000, seed)
    plan = plan_packed(*lengths, 25_000, row_tokens, seed)
    assert _inside(plan, *lengths) < 0.01


def test_one_long_side_is_packed_as_well():
    # Parsing: a tree has three brackets and labels a word.
    source = np.random.default_rng(0).integers(2, 60, 50_000)
    target = 3 * source + np.random.default_rng(1).integers(0, 9, len(source))
    plan = plan_packed(source, target, 25_000, 384, seed=0)
    _, source_length, target_length = plan.shapes[0]
    assert 3 * source_length < target_length <= 384
    assert _inside(plan, source, target) < 0.02


def test_long_sentences_are_packed_in_units_of_several_positions():
    source, target = np.random.default_rng(0).integers(1, 1025, (2, 8_000))
    plan = plan_packed(source, target, 25_000, 2048, seed=0)
    assert _inside(plan, source, target) < 0.02
    for row in _rows(plan):
        assert source[row].sum() <= plan.shapes[0].source_length
        assert target[row].sum() <= plan.shapes[0].target_length


def test_batches_hold_short_and_long_pairs():
    lengths = _tatoeba_like(100_000)
    plan = plan_packed(*lengths, 25_000, 128, seed=0)
    means = [lengths[0][batch.pairs].mean() for batch in plan.epoch(0)]
    pairs = np.mean([len(batch.pairs) for batch in plan.epoch(0)])
    # As of pairs drawn at random, to within half as much again.
    assert np.std(means) < 1.5 * lengths[0].std() / np.sqrt(pairs)


@pytest.mark.parametrize("row_tokens", [80, 128, 192, 256])
@pytest.mark.parametrize("tokens", [4_096, 25_000])
def test_real_sentences_have_little_padding(tokens, row_tokens):
    lengths = tatoeba_lengths.lengths()
    plan = plan_packed(*lengths, tokens, row_tokens, seed=1)
    assert padding_share(plan, *lengths) < 0.01
    # Nor are there more batches than the tokens need.
    needed = max(side.sum() for side in lengths) / tokens
    assert plan.batches_per_epoch <= 1.03 * needed


def test_millions_of_pairs_need_little_memory():
    lengths = _tatoeba_like(1_500_000)
    tracemalloc.start()
    plan = plan_packed(*lengths, 25_000, 128, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120 * lengths.shape[1]
    assert padding_share(plan, *lengths) < 0.005
