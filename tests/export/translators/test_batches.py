"""Batches by length, answers in order."""

import contextlib
import time

import pytest

from export.translators.batches import map_in_batches, parallel_map

LENGTHS = [5, 1, 9, 2, 2, 7, 1, 3, 30, 4]


@pytest.mark.parametrize("batch_tokens", [1, 8, 20, 1000])
def test_each_is_answered_once_and_in_order(batch_tokens):
    batches, steps = [], []

    def answer(numbers):
        batches.append(numbers)
        return [f"{number}!" for number in numbers]

    # One thread, so that batches are answered in their order.
    found = map_in_batches(
        LENGTHS, batch_tokens, answer, steps.append, num_threads=1
    )
    expected = [f"{i}!" if n > 1 else None for i, n in enumerate(LENGTHS)]
    assert found == expected
    assert sum(steps) == 8
    for batch in batches:
        longest = max(LENGTHS[number] for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= batch_tokens
    lengths = [LENGTHS[number] for batch in batches for number in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert map_in_batches([], batch_tokens, None) == []
    assert map_in_batches([1, 0], batch_tokens, None) == [None, None]


def fail(function):
    def failing(item):
        function(item)
        if item == 0:
            raise ValueError("no such batch")

    with pytest.raises(ValueError, match="no such batch"):
        list(parallel_map(failing, range(1000)))


def close(function):
    with contextlib.closing(parallel_map(function, range(1000))) as results:
        next(results)


@pytest.mark.parametrize("end", [fail, close])
def test_after_an_error_or_its_end_no_item_is_started(end):
    begun = []

    def function(item):
        begun.append(item)
        time.sleep(0.01)
        return item

    end(function)
    count = len(begun)
    assert count < 1000
    time.sleep(0.1)
    assert len(begun) == count
