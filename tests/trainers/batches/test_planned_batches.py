"""Groups of pairs: which batches come, and what is in memory meanwhile."""

import collections
import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from tests.trainers.helpers import made_up_pairs
from tests.trainers.training_options import CONFIG, changed
from trainers.batches import (
    PairGroups,
    input_pipeline,
    plan_batches,
    plan_groups,
)
from trainers.training.strategies import make_strategy

OPTIONS = changed(batching="length", shapes=1, seed=3)
CONFIG = CONFIG.replace(batch_tokens=40)


def _groups(sizes, load=made_up_pairs):
    """Groups of random pairs, the seed of each its number."""
    pairs = [made_up_pairs(size, seed) for seed, size in enumerate(sizes)]
    return PairGroups(
        tuple(
            lambda n=n, size=size: load(size, n) for n, size in enumerate(sizes)
        ),
        tuple(
            int(max(each.source_lengths.sum(), each.target_lengths.sum()))
            for each in pairs
        ),
    )


def _first(batches, step, count):
    return [*itertools.islice(batches.from_step(step), count)]


def _sentences(batches):
    """Counts (source ids, target ids) of unpacked batches."""
    return collections.Counter(
        (bytes(source), bytes(target))
        for inputs, labels in batches
        for source, target in zip(_trimmed(inputs["source"]), _trimmed(labels))
        if source
    )


def _trimmed(rows):
    return [row[row > 0].tolist() for row in rows]


@pytest.mark.parametrize("batching", ["length", "pack"])
def test_one_group_has_the_batches_of_its_plan(batching):
    options = changed(batching=batching)
    grouped = plan_groups(_groups([50]), CONFIG, options)
    planned = plan_batches(made_up_pairs(50, 0), CONFIG, options)
    assert grouped.is_packed == planned.is_packed == (batching == "pack")
    for step in (0, 1, 3 * planned.batches_per_epoch - 2):
        np.testing.assert_equal(
            _first(grouped, step, 5), _first(planned, step, 5)
        )


@settings(max_examples=12)
@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=4),
    st.integers(0, 60),
    st.sampled_from(["length", "pack"]),
)
def test_a_step_has_the_same_batch_wherever_one_begins(sizes, step, batching):
    options = changed(batching=batching)
    batches = plan_groups(_groups(sizes), CONFIG, options)
    np.testing.assert_equal(
        _first(batches, step, 9), _first(batches, 0, step + 9)[step:]
    )


@settings(max_examples=20)
@given(
    st.lists(st.integers(20, 60), min_size=2, max_size=4),
    st.integers(1, 5),
)
def test_each_pair_comes_once_in_an_epoch_of_its_group(sizes, rounds):
    groups = _groups(sizes)
    visits = [max(tokens // 40, 1) for tokens in groups.num_tokens]
    batches = plan_groups(groups, CONFIG, OPTIONS)
    seen = _sentences(_first(batches, 0, rounds * sum(visits)))
    expected = collections.Counter()
    for load, count in zip(groups.loaders, visits):
        planned = plan_batches(load(), CONFIG, OPTIONS)
        group = _sentences(_first(planned, 0, rounds * count))
        epochs, rest = divmod(rounds * count, planned.batches_per_epoch)
        distinct = _sentences(planned.epoch(0))
        for sentence, occurrences in distinct.items():
            more = group[sentence] - epochs * occurrences
            assert 0 <= more <= occurrences * bool(rest)
        expected += group
    assert seen == expected


def test_the_order_of_groups_differs_between_rounds_and_seeds():
    groups = _groups([9] * 6)
    visits = sum(max(tokens // 40, 1) for tokens in groups.num_tokens)

    def order(seed, number):
        loads = []
        numbered = PairGroups(
            tuple(
                lambda n=n, load=load: loads.append(n) or load()
                for n, load in enumerate(groups.loaders)
            ),
            groups.num_tokens,
        )
        batches = plan_groups(numbered, CONFIG, changed(seed=seed))
        _first(batches, number * visits, visits)
        return tuple(loads)

    orders = [order(seed, number) for seed in (1, 2) for number in (0, 1)]
    assert len(set(orders)) > 1
    assert all(sorted(each) == [*range(6)] for each in orders)


def test_one_group_at_a_time_is_in_memory():
    alive = weakref.WeakSet()

    def load(size, seed):
        assert not alive
        pairs = made_up_pairs(size, seed)
        alive.add(pairs)
        return pairs

    batches = plan_groups(_groups([30, 40, 50], load), CONFIG, OPTIONS)
    for _ in itertools.islice(batches.from_step(7), 60):
        assert len(alive) == 1


def test_an_error_of_a_later_group_keeps_its_type():
    def load(size, seed):
        if seed:
            raise InputError("the second group is damaged")
        return made_up_pairs(size, seed)

    batches = plan_groups(_groups([30, 40], load), CONFIG, OPTIONS)
    data = input_pipeline.training_data(make_strategy("one"), batches, 0)
    with (
        pytest.raises(InputError, match="second group"),
        batches.report_error(),
    ):
        collections.deque(itertools.islice(data, 40), maxlen=0)
